// SPDX-License-Identifier: Apache-2.0
//
// The thread in which a stand-in driver destroys user objects, as CUDA does: some time after their
// last launch, and without permission to call the driver. Thread safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "base/fork_guard.h"

namespace ashlar::standin {

class CallbackThread {
 public:
  struct Callback {
    void (*function)(void*) = nullptr;
    void* argument = nullptr;
  };

  CallbackThread() : state_(make_fork_guarded<State>()) {}

  // Returns whether the calling thread is such a thread, where all driver calls fail.
  static bool is_current();

  // Makes the thread run the callback. The caller may hold locks. The first call starts the thread.
  void post(Callback callback);
  // Between these calls, no callback starts.
  void pause();
  void resume();
  // Ends a pause and waits until all posted callbacks have run. REQUIRES: the caller holds no lock
  // that a callback may need.
  void drain();

 private:
  // A forked child leaks its copy: it does not have the thread.
  struct State {
    ~State();
    void run();

    ForkGuard fork_guard;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Callback> callbacks;
    bool is_paused = false;
    bool is_running_callback = false;
    bool is_stopping = false;
    std::thread thread;
  };

  // Returns the state, or a new one in a forked child.
  State& state();

  std::mutex mutex_;
  std::shared_ptr<State> state_;
};

}  // namespace ashlar::standin
