// SPDX-License-Identifier: Apache-2.0
//
// Sanitizes and shortens every string, because names and paths come from untrusted files.
#include "cli/terminal/stack_text.h"

#include <fmt/format.h>

#include "analysis/frame_kind.h"
#include "format/utf8.h"

namespace ashlar {
namespace {

// The limit for names and paths. Names of C++ template instantiations can be arbitrarily long.
constexpr size_t kMaxCharacters = 60;

// Formats a frame: "forward  llm/model.py:12". The file and the line are left out if unknown.
std::string frame_text(const Frame& frame) {
  std::string text =
      frame.name.empty() ? "?" : shortened(function_name(frame.name), kMaxCharacters);
  const bool has_file = !frame.filename.empty() && frame.filename != "??";
  if (has_file) text += "  " + shortened(short_path(frame.filename), kMaxCharacters);
  if (has_file && frame.line > 0) text += fmt::format(":{}", frame.line);
  return text;
}

}  // namespace

std::vector<std::string> stack_lines(const std::vector<const Frame*>& frames, size_t max_frames) {
  std::vector<std::string> lines;
  for (const Frame* frame : frames) {
    if (lines.size() == max_frames) break;
    lines.push_back(frame_text(*frame));
  }
  if (lines.empty()) lines.emplace_back("(no stack was recorded)");
  return lines;
}

std::string shortened(std::string_view text, size_t max_characters) {
  std::string safe;
  size_t count = 0;
  const std::string printable_text = printable(text);
  for (std::string_view remaining = printable_text; !remaining.empty(); ++count) {
    if (count == max_characters) return safe + "...";
    const size_t bytes = utf8_character_bytes(remaining);
    safe += remaining.substr(0, bytes);
    remaining.remove_prefix(bytes);
  }
  return safe;
}

std::string short_path(std::string_view path) {
  for (std::string_view folder : {"/site-packages/", "/dist-packages/", "\\site-packages\\"}) {
    const size_t found = path.rfind(folder);
    if (found != std::string_view::npos) return std::string(path.substr(found + folder.size()));
  }
  constexpr std::string_view kSeparators = "/\\";
  size_t slash = path.find_last_of(kSeparators);
  if (slash == std::string_view::npos || slash == 0) return std::string(path);
  slash = path.find_last_of(kSeparators, slash - 1);
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace ashlar
