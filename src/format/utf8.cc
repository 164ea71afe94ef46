// SPDX-License-Identifier: Apache-2.0
//
// Validates ASCII eight bytes at a time, and everything else character by character.
#include "format/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace ashlar {
namespace {

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

// Control characters, and characters that are invisible or that hide or reorder text: format
// characters, line and paragraph separators, fillers, and variation selectors.
constexpr std::array kUnprintable = {
    CodePointRange{0x0000, 0x001f},    // ASCII control characters
    CodePointRange{0x007f, 0x009f},    // DEL, and control characters of ISO 8859
    CodePointRange{0x00ad, 0x00ad},    // soft hyphen
    CodePointRange{0x061c, 0x061c},    // Arabic letter mark
    CodePointRange{0x115f, 0x1160},    // Hangul fillers
    CodePointRange{0x180b, 0x180f},    // Mongolian variation selectors and vowel separator
    CodePointRange{0x200b, 0x200f},    // zero-width characters and direction marks
    CodePointRange{0x2028, 0x202e},    // line separators, direction embeddings and overrides
    CodePointRange{0x2060, 0x206f},    // word joiner, direction isolates
    CodePointRange{0x3164, 0x3164},    // Hangul filler
    CodePointRange{0xfeff, 0xfeff},    // zero-width no-break space
    CodePointRange{0xfff9, 0xfffb},    // annotation marks
    CodePointRange{0xe0000, 0xe0fff},  // tags and variation selectors
};

// REQUIRES: `bytes` starts with a valid character.
uint32_t first_code_point(std::string_view bytes) {
  constexpr std::array<uint32_t, 5> kLeadMasks = {0, 0x7f, 0x1f, 0x0f, 0x07};
  const size_t count = utf8_character_bytes(bytes);
  uint32_t code = static_cast<uint8_t>(bytes[0]) & kLeadMasks[count];
  for (size_t i = 1; i < count; ++i) code = code << 6 | (static_cast<uint8_t>(bytes[i]) & 0x3f);
  return code;
}

void append_escape(uint32_t unit, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[unit >> shift & 0xf];
}

}  // namespace

size_t utf8_character_bytes(std::string_view bytes) {
  const auto at = [bytes](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  const size_t count = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < count) return 0;
  for (size_t i = 1; i < count; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong encodings and code points beyond U+10FFFF are invalid.
  if (lead == 0xe0 && at(1) < 0xa0) return 0;
  if (lead == 0xf0 && at(1) < 0x90) return 0;
  if (lead == 0xf4 && at(1) > 0x8f) return 0;
  return count;
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    uint64_t eight = 0;
    if (bytes.size() >= sizeof(eight)) {
      std::memcpy(&eight, bytes.data(), sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        bytes.remove_prefix(sizeof(eight));
        continue;
      }
    }
    const size_t count = utf8_character_bytes(bytes);
    if (count == 0) return false;
    bytes.remove_prefix(count);
  }
  return true;
}

bool is_unprintable(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first < 0x80) return first < 0x20 || first == 0x7f;  // fast path: ASCII
  const uint32_t code = first_code_point(bytes);
  return std::any_of(kUnprintable.begin(), kUnprintable.end(), [code](const CodePointRange& range) {
    return range.first <= code && code <= range.last;
  });
}

std::string printable(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const size_t bytes = utf8_character_bytes(text);
    const bool is_bad = bytes == 0 || is_surrogate(text) || is_unprintable(text);
    safe += is_bad ? "?" : text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return safe;
}

std::string escape_unprintable(std::string_view text) {
  constexpr std::string_view kKept = "\t\r\n";
  constexpr uint32_t kFirstPair = 0x10000;  // larger code points are two units of UTF-16
  std::string escaped;
  while (!text.empty()) {
    const size_t bytes = utf8_character_bytes(text);
    if (bytes == 0) {
      escaped += '?';
    } else if (kKept.find(text[0]) != std::string_view::npos || !is_unprintable(text)) {
      escaped += text.substr(0, bytes);
    } else if (const uint32_t code = first_code_point(text); code < kFirstPair) {
      append_escape(code, escaped);
    } else {
      append_escape(0xd800 + ((code - kFirstPair) >> 10), escaped);
      append_escape(0xdc00 + ((code - kFirstPair) & 0x3ff), escaped);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return escaped;
}

}  // namespace ashlar
