// SPDX-License-Identifier: Apache-2.0
//
// The registry of all allocators of this process, for observers such as the live endpoint. An
// allocator registers after its construction and unregisters before its destruction. Unregistering
// waits for observers that are visiting the allocator, so a visitor should only copy statistics or
// take a snapshot. Thread safe. No lock is held during a visit.
//
// A forked child must not use the allocators that it inherits: its registry starts empty, and
// Engine::set_inherited disables the fast path of the inherited allocators.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "ashlar/allocator.h"
#include "ashlar/host.h"
#include "base/mutex.h"

namespace ashlar {

// The registry of one type of allocator: `Kind` is Allocator or HostAllocator.
template <typename Kind>
class AllocatorRegistry {
 public:
  static AllocatorRegistry& instance();

  // Registers an allocator for the lifetime of the object. REQUIRES: the allocator is constructed,
  // and outlives the object.
  class Registration {
   public:
    explicit Registration(Kind& allocator) : number_(instance().add(allocator)) {}
    ~Registration() { instance().remove(number_); }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    uint64_t number_;
  };

  // Returns the numbers of all allocators, in order of registration. Numbers are never reused.
  std::vector<uint64_t> numbers() const;
  // Calls `visitor` with the allocator of this number. Returns false if there is none. Exceptions
  // that `visitor` throws propagate.
  bool visit(uint64_t number, const std::function<void(Kind&)>& visitor);

 private:
  struct Record {
    Kind* allocator = nullptr;
    size_t visit_count = 0;
    bool is_leaving = false;  // `remove` waits for visits, and new visits are refused
  };
  class Visit;

  uint64_t add(Kind& allocator);
  void remove(uint64_t number);
  // Thread safety analysis is off, because it cannot follow a mutex that one function locks and
  // another unlocks.
  void before_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis);
  void after_fork_in_parent() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis);
  void after_fork_in_child() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis);

  mutable Mutex mutex_;
  std::condition_variable visit_ended_;
  std::map<uint64_t, Record> records_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t next_number_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

using DeviceAllocatorRegistry = AllocatorRegistry<Allocator>;
using HostAllocatorRegistry = AllocatorRegistry<HostAllocator>;
extern template class AllocatorRegistry<Allocator>;
extern template class AllocatorRegistry<HostAllocator>;

}  // namespace ashlar
