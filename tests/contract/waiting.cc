// SPDX-License-Identifier: Apache-2.0
//
// Polls conditions with a deadline, and implements the gate with a host function in the stream.
#include "waiting.h"

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace ashlar::contract {
namespace {

using SteadyTime = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{1};

}  // namespace

testing::AssertionResult eventually(const std::function<bool()>& condition) {
  const SteadyTime::time_point deadline = SteadyTime::now() + kDeadline;
  while (!condition()) {
    if (SteadyTime::now() >= deadline) {
      return testing::AssertionFailure()
             << "the condition did not become true within " << kDeadline.count() << " s";
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult consistently(const std::function<bool()>& condition) {
  const SteadyTime::time_point deadline = SteadyTime::now() + kObservationTime;
  do {
    if (!condition()) return testing::AssertionFailure() << "the condition became false";
    std::this_thread::sleep_for(kPollInterval);
  } while (SteadyTime::now() < deadline);
  return testing::AssertionSuccess();
}

struct StreamGate::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  bool open = false;
  bool expired = false;

  void wait_until_open() {
    std::unique_lock lock(mutex);
    reached = true;
    if (!changed.wait_for(lock, kDeadline, [this] { return open; })) expired = true;
  }
};

StreamGate::StreamGate(Device& device, StreamId stream) : state_(std::make_shared<State>()) {
  const Status queued = device.call_host(stream, [state = state_] { state->wait_until_open(); });
  if (!queued.ok()) throw std::runtime_error("cannot queue the gate: " + queued.to_string());
}

void StreamGate::open() {
  const std::lock_guard lock(state_->mutex);
  state_->open = true;
  state_->changed.notify_all();
}

bool StreamGate::is_reached() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reached;
}

bool StreamGate::is_closed() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->open && !state_->expired;
}

bool StreamGate::has_expired() const {
  const std::lock_guard lock(state_->mutex);
  return state_->expired;
}

}  // namespace ashlar::contract
