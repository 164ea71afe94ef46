// SPDX-License-Identifier: Apache-2.0
//
// Waiting in tests, always with a deadline: `eventually` for what must come to pass, `stays` for
// what must not, and `Gate`, which holds a stream on any hardware. A broken device makes these
// fail; it does not make them hang.
//
// A driver may run the host functions of all streams on one thread. So while a gate is closed, no
// test may expect another stream's host function to run, or another gate to be reached.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "ashlar/device.h"

namespace ashlar::contract {

// Long enough for a slow machine under a sanitizer; a healthy device never needs it.
inline constexpr std::chrono::seconds kDeadline{30};
// How long a test watches for something that must not happen. It makes a wrong device likely to be
// caught, and never makes a right one fail.
inline constexpr std::chrono::milliseconds kWatch{20};

// Success as soon as the condition holds; failure if it does not before the deadline.
testing::AssertionResult eventually(const std::function<bool()>& condition);

// Success if the condition holds all the while a test watches; failure as soon as it does not.
testing::AssertionResult stays(const std::function<bool()>& condition);

// A host function in a stream that does not return until it is opened, so that everything behind
// it in the stream has to wait. Opens by itself at the deadline, and then counts as expired.
class Gate {
 public:
  // Queues the gate. Throws when the device refuses.
  Gate(Device& device, StreamId stream);
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open();
  // Whether the stream has got to the gate: its function is running.
  bool is_reached() const;
  // Whether it was neither opened nor expired.
  bool is_closed() const;
  bool has_expired() const;

 private:
  struct State;
  // Shared with the function in the stream, which may outlive the test that queued it.
  std::shared_ptr<State> state_;
};

}  // namespace ashlar::contract
