// SPDX-License-Identifier: Apache-2.0
//
// Uses write(2) rather than stdio, which reports errors only when it flushes.
#include "cli/terminal/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "base/text.h"
#include "cli/terminal/style.h"

namespace ashlar {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

// Returns 0 or the errno of the failed write.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

// Opens /dev/null for each closed standard descriptor. open(2) returns the lowest free descriptor,
// so the loop must ascend. /dev/null is opened read-only, so that writes to a closed standard
// output still fail.
void fill_closed_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDONLY));
  }
}

// Formats the progress as " 12 %, about 4 min left". Early estimates are too inaccurate to show.
std::string progress_line(double share, std::chrono::duration<double> elapsed) {
  constexpr std::chrono::seconds kMinElapsed{5};
  const std::string percent = text("  ", static_cast<int>(100 * share), " %");
  if (elapsed < kMinElapsed || share <= 0) return percent;
  const auto left_s = static_cast<int64_t>(elapsed.count() * (1 - share) / share);
  if (left_s < 60) return text(percent, ", less than a minute left");
  return text(percent, ", about ", (left_s + 30) / 60, " min left");
}

}  // namespace

Console::Console(const Environment& environment)
    : has_output_color_(wants_color(environment, STDOUT_FILENO)),
      has_message_color_(wants_color(environment, STDERR_FILENO)) {
  std::signal(SIGPIPE, SIG_IGN);
  fill_closed_descriptors();
}

void Console::print(std::string_view text) {
  if (!has_reader()) return;
  const std::string safe = safe_for_terminal(text);
  const int error = write_all(STDOUT_FILENO, has_output_color_ ? safe : strip_style(safe));
  if (error == EPIPE) {
    is_pipe_closed_ = true;
  } else {
    output_error_ = error;
  }
}

void Console::print_message(std::string_view message) {
  clear_progress();
  const std::string prefix = has_message_color_ ? red("ashlar:") : "ashlar:";
  // A failed write to standard error cannot be reported anywhere.
  write_all(STDERR_FILENO, text(prefix, " ", safe_for_terminal(message), "\n"));
}

void Console::set_progress(double share) {
  if (::isatty(STDERR_FILENO) == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_progress_.empty()) progress_begin_ = now;
  const std::string line = progress_line(share, now - progress_begin_);
  if (line == shown_progress_) return;
  write_all(STDERR_FILENO, text(kEraseLine, line));
  shown_progress_ = line;
}

void Console::clear_progress() {
  if (shown_progress_.empty()) return;
  shown_progress_.clear();
  write_all(STDERR_FILENO, kEraseLine);
}

}  // namespace ashlar
