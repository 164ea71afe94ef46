// SPDX-License-Identifier: Apache-2.0
//
// The whole terminal for one command: another page of it, keys as they are pressed, and all as it
// was before when this ends, also by SIGINT, SIGTERM or SIGHUP, and while it is suspended (Ctrl-Z).
// For the main thread, before others are started: signals are taken for the whole process.
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
  // Whether standard input and output are a terminal that can do more than print.
  static bool is_possible(std::string_view terminal_kind);
  // kDeviceFault: the system refuses.
  static Result<std::unique_ptr<Screen>> open();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Lines that each end in a line feed, from the top; no more of them than there are rows.
  void show(std::string_view lines);

  enum class Event {
    kTime,    // the time is over
    kRedraw,  // the size changed, or we are back from being suspended
    kKey,     // see key()
    kEnd,     // a signal to end, or the terminal is gone
  };
  Event wait(std::chrono::steady_clock::time_point until);
  char key() const { return key_; }  // of the last kKey

  // For open() alone.
  Screen(UniqueFd signals, const termios& before) : signals_(std::move(signals)), before_(before) {}

 private:
  void enter();
  void leave();
  Event take_signal();

  UniqueFd signals_;
  termios before_;
  char key_ = 0;
};

}  // namespace ashlar
