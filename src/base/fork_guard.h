// SPDX-License-Identifier: Apache-2.0
//
// Detects use of an object in a child process after fork(2). A child has copies of all objects but
// none of their threads, so objects with threads, connections or shared memory must not act in the
// child. Thread safe.
//
// A handler of pthread_atfork(3) counts forks, so a check is one load. Children of vfork(2) or raw
// clone(2) are not detected.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "ashlar/status.h"

namespace ashlar {

// Makes every child that is forked from now on run `handler` before it has a second thread. Cannot
// be undone. Has no effect if memory runs out.
inline void run_in_forked_children(void (*handler)()) {
  static_cast<void>(::pthread_atfork(nullptr, nullptr, handler));
}

class ForkGuard {
 public:
  ForkGuard() : fork_count_(count_forks()) {}

  // Returns whether the calling process constructed this object. The result is false in every
  // process that was forked from the creating process afterwards, directly or indirectly.
  bool in_creating_process() const {
    return fork_count_ == process_fork_count.load(std::memory_order_relaxed);
  }
  // Returns kInvalidArgument in a forked child. `object` names the object for the message.
  Status check_not_forked(std::string_view object) const {
    return in_creating_process() ? Status() : error(object);
  }

 private:
  static Status error(std::string_view object);
  // Returns process_fork_count. The first call registers the handler that counts.
  static uint64_t count_forks() {
    // Registration fails only if memory runs out; forks are then not counted.
    static const bool registered = [] {
      run_in_forked_children([] { process_fork_count.fetch_add(1, std::memory_order_relaxed); });
      return true;
    }();
    static_cast<void>(registered);
    return process_fork_count.load(std::memory_order_relaxed);
  }

  // Number of forks between the first process that used a guard and this process. Relaxed order
  // suffices, because the count changes only in a new child, which has a single thread.
  static inline constinit std::atomic<uint64_t> process_fork_count{0};
  uint64_t fork_count_;  // process_fork_count at construction
};

// Creates an object that is destroyed only in the process that created it; a forked child leaks its
// copy. Use it for types whose destructor joins threads or communicates with peers.
template <typename T, typename... Arguments>
std::shared_ptr<T> make_fork_guarded(Arguments&&... arguments) {
  auto created = std::make_unique<T>(std::forward<Arguments>(arguments)...);
  return {created.release(), [fork_guard = ForkGuard()](T* object) {
            std::unique_ptr<T> owner(object);
            if (!fork_guard.in_creating_process()) static_cast<void>(owner.release());
          }};
}

}  // namespace ashlar
