// SPDX-License-Identifier: Apache-2.0
//
// Waiting in tests, always with a deadline: `eventually` for conditions that must become true,
// `consistently` for conditions that must stay true, and `StreamGate`, which blocks a stream on any
// hardware. On a broken device, they fail instead of hanging.
//
// A driver may run the host functions of all streams on one thread. While a gate is closed, a test
// must not expect another stream's host function to run or another gate to be reached.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "ashlar/device.h"

namespace ashlar::contract {

// The deadline is long enough for a slow machine under a sanitizer; a working device needs much
// less time.
inline constexpr std::chrono::seconds kDeadline{30};
// How long `consistently` observes a condition. This is long enough to detect a broken device with
// high probability; a correct device never fails.
inline constexpr std::chrono::milliseconds kObservationTime{20};

// Succeeds as soon as the condition is true; fails at the deadline.
testing::AssertionResult eventually(const std::function<bool()>& condition);

// Succeeds if the condition stays true for kObservationTime; fails as soon as it is false.
testing::AssertionResult consistently(const std::function<bool()>& condition);

// A host function in a stream that blocks the stream, and so all its later work, until the gate is
// opened. The gate expires kDeadline after the stream has reached it.
class StreamGate {
 public:
  // Queues the gate. Throws if the device rejects it.
  StreamGate(Device& device, StreamId stream);
  ~StreamGate() { open(); }
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  void open();
  // Returns whether the stream has reached the gate.
  bool is_reached() const;
  // Returns whether the gate has neither been opened nor expired.
  bool is_closed() const;
  bool has_expired() const;

 private:
  struct State;
  // Shared with the host function, which may outlive the gate.
  std::shared_ptr<State> state_;
};

}  // namespace ashlar::contract
