// SPDX-License-Identifier: Apache-2.0
//
// Where the commands write: answers to standard output, messages to standard error. The only place
// that prints. A reader that closes the pipe has read enough: what is printed after that goes
// nowhere, quietly. For one thread at a time.
#pragma once

#include <string_view>

namespace ashlar {

class Console {
 public:
  // Takes care, for the whole process, that a closed pipe is an error code instead of a signal, and
  // that a standard descriptor the shell left closed is not handed to the next file we open.
  Console();

  void print(std::string_view answer);
  // One line, after "ashlar: ".
  void complain(std::string_view message);

  // How far long work is, in one line that changes; only where somebody watches: on a terminal.
  void set_progress(double share);
  void clear_progress();

  // Whether somebody may still read what is printed.
  bool has_reader() const { return !reader_left_ && print_error_ == 0; }
  // 0, or the error number of the first answer that could not be written.
  int print_error() const { return print_error_; }

 private:
  bool reader_left_ = false;
  int print_error_ = 0;
  int shown_percent_ = -1;  // -1: no progress is shown
};

}  // namespace ashlar
