// SPDX-License-Identifier: Apache-2.0
//
// Wraps text in Select Graphic Rendition sequences (ESC [ <number> m), and strips them.
#include "cli/terminal/style.h"

#include <unistd.h>

#include "base/text.h"

namespace ashlar {
namespace {

constexpr std::string_view kEscape = "\x1b[";

std::string styled(std::string_view code, std::string_view text_to_style) {
  if (text_to_style.empty()) return {};
  return text(kEscape, code, "m", text_to_style, kEscape, "0m");
}

}  // namespace

std::string bold(std::string_view text) { return styled("1", text); }
std::string red(std::string_view text) { return styled("1;31", text); }
std::string green(std::string_view text) { return styled("32", text); }

std::string strip_style(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const size_t begin = text.find(kEscape);
    plain += text.substr(0, begin);
    if (begin == std::string_view::npos) break;
    const size_t end = text.find('m', begin);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return plain;
}

bool wants_color(const Environment& environment, int descriptor) {
  if (environment.value("NO_COLOR")) return false;
  if (environment.value("TERM").value_or("dumb") == "dumb") return false;
  return ::isatty(descriptor) != 0;
}

}  // namespace ashlar
