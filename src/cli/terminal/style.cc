// SPDX-License-Identifier: Apache-2.0
//
// Wraps text in Select Graphic Rendition sequences (ESC [ <number> m), and strips them.
#include "cli/terminal/style.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "format/utf8.h"

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

std::string safe_for_terminal(std::string_view text) {
  constexpr std::array<std::string_view, 4> kCodes = {"0m", "1m", "1;31m", "32m"};
  std::string safe;
  while (!text.empty()) {
    size_t bytes = 1;
    bool is_safe = text[0] == '\n' || text[0] == '\t';
    if (text.starts_with(kEscape)) {
      const std::string_view code = text.substr(kEscape.size());
      const auto known = std::find_if(kCodes.begin(), kCodes.end(), [code](std::string_view each) {
        return code.starts_with(each);
      });
      is_safe = known != kCodes.end();
      if (is_safe) bytes = kEscape.size() + known->size();
    } else if (!is_safe) {
      const size_t character_bytes = utf8_character_bytes(text);
      is_safe = character_bytes > 0 && !is_surrogate(text) && !is_unprintable(text);
      bytes = std::max<size_t>(character_bytes, 1);
    }
    safe += is_safe ? text.substr(0, bytes) : "?";
    text.remove_prefix(bytes);
  }
  return safe;
}

bool wants_color(const Environment& environment, int descriptor) {
  if (environment.value("NO_COLOR")) return false;
  if (environment.value("TERM").value_or("dumb") == "dumb") return false;
  return ::isatty(descriptor) != 0;
}

}  // namespace ashlar
