// SPDX-License-Identifier: Apache-2.0
//
// ioctl(2) for the size; the locale's name for the characters, since the locale itself need not be
// installed for a terminal to show UTF-8.
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace ashlar {
namespace {

constexpr size_t kNarrowest = 60;
constexpr size_t kWidest = 160;

// The first of them that is set counts, as for setlocale(3).
std::string_view locale_in(const Environment& environment) {
  for (std::string_view variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const std::optional<std::string_view> value = environment.value(variable)) return *value;
  }
  return "";
}

}  // namespace

Terminal terminal_in(const Environment& environment) {
  Terminal terminal;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.width = std::clamp<size_t>(size.ws_col, kNarrowest, kWidest);
    if (size.ws_row > 0) terminal.height = size.ws_row;
  }
  std::string locale(locale_in(environment));
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  terminal.is_utf8 =
      locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  return terminal;
}

}  // namespace ashlar
