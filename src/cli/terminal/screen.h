// SPDX-License-Identifier: Apache-2.0
//
// Full-screen use of the terminal: the alternate screen and unbuffered key presses. The destructor
// restores the terminal; SIGINT, SIGTERM, SIGHUP and SIGQUIT arrive as events, and Ctrl-Z restores
// the terminal while the process is suspended.
//
// The screen must be opened on the main thread, before other threads start: it blocks signals in
// the calling thread, and threads that start later inherit the signal mask.
#pragma once

#include <termios.h>

#include <chrono>
#include <memory>
#include <string_view>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar {

class Screen {
 public:
  // Returns whether standard input and output are a terminal that supports escape sequences.
  // `terminal_kind` is the value of TERM.
  static bool is_supported(std::string_view terminal_kind);
  // Takes over the terminal. kDeviceFault: a system call failed.
  static Result<std::unique_ptr<Screen>> open();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Shows lines from the top. REQUIRES: each line ends in a line feed, and there are at most as
  // many lines as the terminal has rows.
  void show(std::string_view lines);

  enum class Event {
    kTimeout,
    kRedraw,  // the size changed, or the process was resumed
    kKey,     // see key()
    kEnd,     // a termination signal, or the terminal was closed
  };
  // Waits for a key, a signal, or the given time.
  Event wait(std::chrono::steady_clock::time_point until);
  char key() const { return key_; }  // the key of the last kKey event

  // Public for std::make_unique. Call open() instead.
  Screen(UniqueFd signals, const termios& original)
      : signals_(std::move(signals)), original_(original) {}

 private:
  void enter();
  void leave();
  Event take_signal();

  UniqueFd signals_;
  termios original_;
  char key_ = 0;
};

}  // namespace ashlar
