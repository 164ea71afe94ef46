// SPDX-License-Identifier: Apache-2.0
//
// All allocators of this process, of device memory and of pinned host memory, for those who look at
// them from outside (live.cc). An allocator enters when it is made, and leaves before it ends:
// leaving waits for those who are looking at it, which nobody does for longer than it takes to copy
// numbers or a snapshot. Thread safe; no lock is held while somebody looks.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "ashlar/allocator.h"
#include "ashlar/host.h"
#include "base/mutex.h"

namespace ashlar {

// All of one kind.
template <typename Kind>
class Shown {
 public:
  static Shown& of_process();

  // As long as it lives, the allocator can be looked at.
  class Entry {
   public:
    // `allocator` is made, and outlives it.
    explicit Entry(Kind& allocator) : number_(of_process().enter(allocator)) {}
    ~Entry() { of_process().leave(number_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    uint64_t number_;
  };

  std::vector<uint64_t> numbers() const;
  // False: there is no such allocator (any more). What `look` throws is passed on.
  bool visit(uint64_t number, const std::function<void(Kind&)>& look);

 private:
  struct Place {
    Kind* allocator = nullptr;
    size_t visit_count = 0;
    pid_t visited_in = 0;  // the process that visits: a child that is forked off has none of them
    bool is_leaving = false;
  };
  class Visit;

  uint64_t enter(Kind& allocator);
  void leave(uint64_t number);
  // The compiler's analysis knows of no lock that is let go of in another process.
  void before_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis);
  void after_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis);

  mutable Mutex mutex_;
  std::condition_variable visit_ended_;
  std::map<uint64_t, Place> shown_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t next_number_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

using ShownAllocators = Shown<Allocator>;
using ShownHostAllocators = Shown<HostAllocator>;
extern template class Shown<Allocator>;
extern template class Shown<HostAllocator>;

}  // namespace ashlar
