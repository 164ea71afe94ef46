// SPDX-License-Identifier: Apache-2.0
//
// Detects use of an object in a child process after fork(2). A child has copies of all objects but
// none of their threads, so objects with threads, connections or shared memory must not act in the
// child. Thread safe.
//
// pthread_atfork(3) counts forks, so a check is one load. Children of vfork(2) or raw clone(2) are
// not detected.
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

  // False in a child forked since construction, and in its children.
  bool in_creating_process() const { return fork_count_ == forks.load(std::memory_order_relaxed); }

 private:
  static uint64_t count_forks() {
    // Registration fails only if memory runs out; then forks are not counted.
    static const int registered =
        ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    static_cast<void>(registered);
    return forks.load(std::memory_order_relaxed);
  }

  // Forks between the first process that used a guard and this one. Relaxed, because it changes
  // only in a new child, which has a single thread.
  static inline constinit std::atomic<uint64_t> forks{0};
  uint64_t fork_count_;
};

// For types whose destructor joins threads or communicates with peers: destroys the object only in
// the process that created it. A forked child leaks its copy.
template <typename Thing, typename... Arguments>
std::shared_ptr<Thing> make_fork_guarded(Arguments&&... arguments) {
  auto made = std::make_unique<Thing>(std::forward<Arguments>(arguments)...);
  return {made.release(), [fork_guard = ForkGuard()](Thing* thing) {
            std::unique_ptr<Thing> last(thing);
            if (!fork_guard.in_creating_process()) static_cast<void>(last.release());
          }};
}

}  // namespace ashlar
