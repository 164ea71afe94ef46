// SPDX-License-Identifier: Apache-2.0
//
// Runs callbacks in the order in which they were posted.
#include "standin/callback_thread.h"

namespace ashlar::standin {
namespace {

bool& is_callback_thread() {
  thread_local bool is_it = false;
  return is_it;
}

}  // namespace

bool CallbackThread::is_current() { return is_callback_thread(); }

CallbackThread::State& CallbackThread::state() {
  const std::lock_guard lock(mutex_);
  if (!state_->fork_guard.in_creating_process()) state_ = make_fork_guarded<State>();
  return *state_;
}

void CallbackThread::post(Callback callback) {
  State& target = state();
  const std::lock_guard lock(target.mutex);
  target.callbacks.push_back(callback);
  if (!target.thread.joinable()) target.thread = std::thread([&target] { target.run(); });
  target.changed.notify_all();
}

void CallbackThread::pause() {
  State& target = state();
  const std::lock_guard lock(target.mutex);
  target.is_paused = true;
}

void CallbackThread::resume() {
  State& target = state();
  const std::lock_guard lock(target.mutex);
  target.is_paused = false;
  target.changed.notify_all();
}

void CallbackThread::drain() {
  resume();
  State& target = state();
  std::unique_lock lock(target.mutex);
  target.changed.wait(lock,
                      [&] { return target.callbacks.empty() && !target.is_running_callback; });
}

CallbackThread::State::~State() {
  {
    const std::lock_guard lock(mutex);
    is_stopping = true;
    is_paused = false;
    changed.notify_all();
  }
  if (thread.joinable()) thread.join();
}

void CallbackThread::State::run() {
  is_callback_thread() = true;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return is_stopping || (!callbacks.empty() && !is_paused); });
    if (callbacks.empty()) return;
    const Callback next = callbacks.front();
    callbacks.pop_front();
    is_running_callback = true;
    lock.unlock();
    next.function(next.argument);
    lock.lock();
    is_running_callback = false;
    changed.notify_all();
  }
}

}  // namespace ashlar::standin
