// SPDX-License-Identifier: Apache-2.0
//
// Gets the size from ioctl(2) and the encoding from the locale's name: a terminal can show UTF-8
// even if the locale is not installed.
#include "cli/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace ashlar {
namespace {

constexpr size_t kMinWidth = 60;
constexpr size_t kMaxWidth = 160;

// Returns the name of the locale. Checks the variables in the same order of precedence as
// setlocale(3).
std::string_view locale_name(const Environment& environment) {
  for (std::string_view variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const std::optional<std::string_view> value = environment.value(variable)) return *value;
  }
  return "";
}

}  // namespace

Terminal detect_terminal(const Environment& environment) {
  Terminal terminal;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.width = std::clamp<size_t>(size.ws_col, kMinWidth, kMaxWidth);
    if (size.ws_row > 0) terminal.height = size.ws_row;
  }
  std::string locale(locale_name(environment));
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  terminal.is_utf8 =
      locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  return terminal;
}

}  // namespace ashlar
