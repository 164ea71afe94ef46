// SPDX-License-Identifier: Apache-2.0
//
// Uses termios(3), signalfd(2), and the xterm escape sequences that all common terminals support.
#include "cli/terminal/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/text.h"

namespace ashlar {
namespace {

// kEnter switches to the alternate screen, hides the cursor and disables line wrapping; kLeave does
// the reverse.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

sigset_t handled_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP}) {
    ::sigaddset(&set, each);
  }
  return set;
}

// Writes to the terminal. Ignores errors, which mean that the terminal was closed.
void write_to_terminal(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

bool Screen::is_supported(std::string_view terminal_kind) {
  if (terminal_kind.empty() || terminal_kind == "dumb") return false;
  return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
}

Result<std::unique_ptr<Screen>> Screen::open() {
  termios original{};
  if (::tcgetattr(STDIN_FILENO, &original) != 0) {
    return Status::device_fault("tcgetattr", errno,
                                text("cannot configure the terminal: ", std::strerror(errno)));
  }
  const sigset_t handled = handled_signals();
  UniqueFd signals(::signalfd(-1, &handled, SFD_CLOEXEC));
  if (!signals.valid()) {
    return Status::device_fault("signalfd", errno,
                                text("cannot wait for signals: ", std::strerror(errno)));
  }
  ::pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  auto screen = std::make_unique<Screen>(std::move(signals), original);
  screen->enter();
  return screen;
}

Screen::~Screen() { leave(); }

void Screen::enter() {
  termios keys = original_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  keys.c_cc[VMIN] = 0;
  keys.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  write_to_terminal(kEnter);
}

void Screen::leave() {
  write_to_terminal(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &original_);
}

// Overwrites the previous contents instead of clearing the screen first, to avoid flicker.
void Screen::show(std::string_view lines) {
  std::string bytes = "\x1b[H";
  while (!lines.empty()) {
    const std::string_view line = take_line(lines);
    // Erase before writing: erasing after a line of full width would remove its last character. The
    // last line also erases everything below it.
    bytes += lines.empty() ? "\x1b[J" : "\x1b[K";
    bytes += line;
    if (!lines.empty()) bytes += "\r\n";
  }
  write_to_terminal(bytes);
}

Screen::Event Screen::wait(std::chrono::steady_clock::time_point until) {
  std::array<pollfd, 2> waiting = {pollfd{signals_.get(), POLLIN, 0},
                                   pollfd{STDIN_FILENO, POLLIN, 0}};
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const int timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
    const int ready = ::poll(waiting.data(), waiting.size(), timeout);
    if (ready < 0 && errno != EINTR) return Event::kEnd;
    if (ready < 0) continue;
    if (ready == 0 && left.count() <= 0) return Event::kTimeout;
    if (waiting[0].revents != 0) return take_signal();
    if (waiting[1].revents == 0) continue;
    if (::read(STDIN_FILENO, &key_, 1) == 1) return Event::kKey;
    return Event::kEnd;  // end of file: the terminal was closed
  }
}

Screen::Event Screen::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return Event::kEnd;
  const int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGTSTP) {
    leave();
    ::raise(SIGSTOP);  // returns after SIGCONT
    enter();
    return Event::kRedraw;
  }
  return signal == SIGWINCH ? Event::kRedraw : Event::kEnd;
}

}  // namespace ashlar
