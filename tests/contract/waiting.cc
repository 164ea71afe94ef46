// SPDX-License-Identifier: Apache-2.0
//
// Waiting with a deadline; see waiting.h.
#include "waiting.h"

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace ashlar::contract {
namespace {

using SteadyTime = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{1};

}  // namespace

testing::AssertionResult eventually(const std::function<bool()>& condition) {
  const SteadyTime::time_point deadline = SteadyTime::now() + kDeadline;
  while (!condition()) {
    if (SteadyTime::now() >= deadline) {
      return testing::AssertionFailure()
             << "it did not happen within " << kDeadline.count() << " s";
    }
    std::this_thread::sleep_for(kPause);
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult stays(const std::function<bool()>& condition) {
  const SteadyTime::time_point deadline = SteadyTime::now() + kWatch;
  do {
    if (!condition()) return testing::AssertionFailure() << "it ended while the test was watching";
    std::this_thread::sleep_for(kPause);
  } while (SteadyTime::now() < deadline);
  return testing::AssertionSuccess();
}

struct Gate::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  bool open = false;
  bool expired = false;

  void stand() {
    std::unique_lock lock(mutex);
    reached = true;
    if (!changed.wait_for(lock, kDeadline, [this] { return open; })) expired = true;
  }
};

Gate::Gate(Device& device, StreamId stream) : state_(std::make_shared<State>()) {
  const Status queued = device.call_host(stream, [state = state_] { state->stand(); });
  if (!queued.ok()) throw std::runtime_error("a gate was refused: " + queued.to_string());
}

void Gate::open() {
  const std::lock_guard lock(state_->mutex);
  state_->open = true;
  state_->changed.notify_all();
}

bool Gate::is_reached() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reached;
}

bool Gate::is_closed() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->open && !state_->expired;
}

bool Gate::has_expired() const {
  const std::lock_guard lock(state_->mutex);
  return state_->expired;
}

}  // namespace ashlar::contract
