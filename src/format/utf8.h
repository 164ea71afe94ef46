// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 validation and character boundaries, and removal of characters that could change how the
// text around them is displayed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ashlar {

// Returns whether the bytes are UTF-8 as Python's pickler writes it, including lone surrogates,
// which represent undecodable bytes of file names.
bool is_utf8(std::string_view bytes);

// Returns the length in bytes of the first character, or 0 if the character is invalid.
// REQUIRES: `bytes` is not empty.
size_t utf8_character_bytes(std::string_view bytes);

// Returns whether the first character is a lone surrogate, which most other programs reject.
inline bool is_surrogate(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\xed' && (bytes[1] & '\x20') != 0;
}

// Returns whether the first character has no visible glyph: a control character, such as ESC, which
// starts terminal escape sequences, or an invisible character, such as U+202E, which reverses the
// text after it.
// REQUIRES: `bytes` starts with a valid character.
bool is_unprintable(std::string_view bytes);

// Replaces unprintable characters, lone surrogates and invalid UTF-8 by "?".
std::string printable(std::string_view text);

// Replaces unprintable characters, except tabs and line ends, by escapes such as \u202e, as in
// JSON, and invalid UTF-8 by "?".
std::string escape_unprintable(std::string_view text);

}  // namespace ashlar
