// SPDX-License-Identifier: Apache-2.0
//
// All output of the tool: results go to standard output, messages to standard error. When the
// reader of standard output closes the pipe, further output is discarded without an error. Not
// thread safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "config/environment.h"

namespace ashlar {

class Console {
 public:
  // Affects the whole process: ignores SIGPIPE, so that a closed pipe yields an error code, and
  // opens /dev/null for each closed standard descriptor, so that no file reuses its number.
  explicit Console(const Environment& environment);

  // Writes to standard output. Replaces unprintable characters, see safe_for_terminal(), and
  // removes the sequences of style.h unless the terminal shows them.
  void print(std::string_view text);
  // Writes one line to standard error, prefixed with "ashlar: ". Replaces unprintable characters.
  void print_message(std::string_view message);

  // Updates one line on standard error with the completed share, 0 to 1, and after a while the
  // remaining time. Does nothing unless standard error is a terminal.
  void set_progress(double share);
  void clear_progress();

  // Whether output still has a reader: no write to standard output has failed, and the pipe is not
  // closed.
  bool has_reader() const { return !is_pipe_closed_ && output_error_ == 0; }
  // The errno of the first failed write to standard output, or 0. A closed pipe is not a failure.
  int output_error() const { return output_error_; }

 private:
  bool has_output_color_ = false;
  bool has_message_color_ = false;
  bool is_pipe_closed_ = false;
  int output_error_ = 0;
  std::string shown_progress_;  // empty: no progress is shown
  std::chrono::steady_clock::time_point progress_begin_;
};

}  // namespace ashlar
