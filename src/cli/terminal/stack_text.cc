// SPDX-License-Identifier: Apache-2.0
//
// Sanitizes and shortens every string, because names and paths come from untrusted files.
#include "cli/terminal/stack_text.h"

#include <fmt/format.h>

#include <array>

#include "format/utf8.h"

namespace ashlar {
namespace {

// Names of C++ template instantiations can be arbitrarily long.
constexpr size_t kMaxCharacters = 60;

std::string shortened(std::string_view text) {
  std::string safe;
  size_t count = 0;
  const std::string printable_text = printable(text);
  for (std::string_view remaining = printable_text; !remaining.empty(); ++count) {
    if (count == kMaxCharacters) return safe + "...";
    const size_t bytes = utf8_character_bytes(remaining);
    safe += remaining.substr(0, bytes);
    remaining.remove_prefix(bytes);
  }
  return safe;
}

}  // namespace

std::vector<std::string> stack_lines(const std::vector<const Frame*>& frames, size_t max_frames) {
  std::vector<std::string> lines;
  for (const Frame* frame : frames) {
    if (lines.size() == max_frames) break;
    const std::string name = frame->name.empty() ? "?" : shortened(frame->name);
    lines.push_back(
        fmt::format("{}  {}:{}", name, shortened(short_path(frame->filename)), frame->line));
  }
  if (lines.empty()) lines.emplace_back("(no stack was recorded)");
  return lines;
}

std::string short_path(std::string_view path) {
  for (std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const size_t found = path.rfind(folder);
    if (found != std::string_view::npos) return std::string(path.substr(found + folder.size()));
  }
  size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::string(path);
  slash = path.rfind('/', slash - 1);
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace ashlar
