// SPDX-License-Identifier: Apache-2.0
//
// termios(3), signalfd(2), and the few escape sequences that every terminal has had for decades.
#include "cli/screen.h"

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

// The other page, no cursor, and no wrapping of lines that are too long; and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP}) {
    ::sigaddset(&set, each);
  }
  return set;
}

// A terminal that is gone takes nothing, and nobody is there to be told.
void write_to_terminal(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

bool Screen::is_possible(std::string_view terminal_kind) {
  if (terminal_kind.empty() || terminal_kind == "dumb") return false;
  return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
}

Result<std::unique_ptr<Screen>> Screen::open() {
  termios before{};
  if (::tcgetattr(STDIN_FILENO, &before) != 0) {
    return Status::device_fault("tcgetattr", errno,
                                text("the terminal is not to be had: ", std::strerror(errno)));
  }
  const sigset_t watched = watched_signals();
  UniqueFd signals(::signalfd(-1, &watched, SFD_CLOEXEC));
  if (!signals.valid()) {
    return Status::device_fault("signalfd", errno,
                                text("signals cannot be waited for: ", std::strerror(errno)));
  }
  ::pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  auto screen = std::make_unique<Screen>(std::move(signals), before);
  screen->enter();
  return screen;
}

Screen::~Screen() { leave(); }

void Screen::enter() {
  termios keys = before_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  keys.c_cc[VMIN] = 0;
  keys.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  write_to_terminal(kEnter);
}

void Screen::leave() {
  write_to_terminal(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

// Drawn over what is there, so that nothing flickers.
void Screen::show(std::string_view lines) {
  std::string bytes = "\x1b[H";
  while (!lines.empty()) {
    const std::string_view line = take_line(lines);
    // The line, or with the last one all below, is erased before it is written: afterwards, a line
    // that is full would lose its last character.
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
    if (ready == 0 && left.count() <= 0) return Event::kTime;
    if (waiting[0].revents != 0) return take_signal();
    if (waiting[1].revents == 0) continue;
    if (::read(STDIN_FILENO, &key_, 1) == 1) return Event::kKey;
    return Event::kEnd;  // ready, but nothing there: the terminal is gone
  }
}

Screen::Event Screen::take_signal() {
  signalfd_siginfo taken{};
  if (::read(signals_.get(), &taken, sizeof(taken)) != sizeof(taken)) return Event::kEnd;
  const int signal = static_cast<int>(taken.ssi_signo);
  if (signal == SIGTSTP) {
    leave();
    ::raise(SIGSTOP);  // until SIGCONT
    enter();
    return Event::kRedraw;
  }
  return signal == SIGWINCH ? Event::kRedraw : Event::kEnd;
}

}  // namespace ashlar
