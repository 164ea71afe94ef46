// SPDX-License-Identifier: Apache-2.0
//
// Which process something was made in. A child of fork(2) has a copy of everything and none of the
// threads: what has threads, connections or shared words is its parent's, and is to be left alone
// there. Thread safe.
//
// Forks are counted by pthread_atfork(3), so that asking costs a load and no call of the system.
// Processes that are made in other ways, such as vfork(2) and clone(2) themselves, are not counted.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace ashlar {

class ForkGuard {
 public:
  ForkGuard() : fork_count_(count_forks()) {}

  // False: in a child that was forked off since, or in a child of such a one.
  bool is_here() const { return fork_count_ == forks.load(std::memory_order_relaxed); }

 private:
  static uint64_t count_forks() {
    // Refused only where there is no memory: then forks are not counted.
    static const int registered =
        ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    static_cast<void>(registered);
    return forks.load(std::memory_order_relaxed);
  }

  // Between this process and the first one that asked. Relaxed: it changes only where there is but
  // one thread, that of a child which has just begun.
  static inline constinit std::atomic<uint64_t> forks{0};
  uint64_t fork_count_;
};

// For what ends by waiting for its threads, or by telling others: the last owner ends it in the
// process that made it. In a child it stays as it is until the child is over.
template <typename Thing, typename... Arguments>
std::shared_ptr<Thing> make_fork_guarded(Arguments&&... arguments) {
  auto made = std::make_unique<Thing>(std::forward<Arguments>(arguments)...);
  return {made.release(), [fork_guard = ForkGuard()](Thing* thing) {
            std::unique_ptr<Thing> last(thing);
            if (!fork_guard.is_here()) static_cast<void>(last.release());
          }};
}

}  // namespace ashlar
