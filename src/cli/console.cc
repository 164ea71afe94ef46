// SPDX-License-Identifier: Apache-2.0
//
// write(2) instead of stdio: its errors are seen where they happen, not at exit.
#include "cli/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

namespace ashlar {
namespace {

// 0, or the error number that ended the writing.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

// open(2) takes the lowest free number, so each closed one is filled before the next is looked at.
// Opened for reading: writing to a closed standard output stays an error.
void fill_closed_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDONLY));
  }
}

}  // namespace

Console::Console() {
  std::signal(SIGPIPE, SIG_IGN);
  fill_closed_descriptors();
}

void Console::print(std::string_view answer) {
  if (reader_left_ || print_error_ != 0) return;
  const int error = write_all(STDOUT_FILENO, answer);
  if (error == EPIPE) {
    reader_left_ = true;
  } else {
    print_error_ = error;
  }
}

void Console::complain(std::string_view message) {
  // Nobody is left to be told when standard error itself fails.
  write_all(STDERR_FILENO, "ashlar: " + std::string(message) + "\n");
}

void Console::set_progress(double share) {
  const int percent = static_cast<int>(100 * share);
  if (percent == shown_percent_ || isatty(STDERR_FILENO) == 0) return;
  shown_percent_ = percent;
  write_all(STDERR_FILENO, "\r  " + std::to_string(percent) + " %");
}

void Console::clear_progress() {
  if (shown_percent_ < 0) return;
  shown_percent_ = -1;
  write_all(STDERR_FILENO, "\r       \r");
}

}  // namespace ashlar
