// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 validation and character boundaries.
#pragma once

#include <cstddef>
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

}  // namespace ashlar
