// SPDX-License-Identifier: Apache-2.0
//
// Whether bytes are UTF-8, and where its characters end.
#pragma once

#include <cstddef>
#include <string_view>

namespace ashlar {

// As Python takes and gives it: lone surrogates, which stand for undecodable bytes of file names,
// are allowed.
bool is_utf8(std::string_view bytes);

// How many bytes the first character has; 0: it is none.
// REQUIRES: not empty.
size_t utf8_character_bytes(std::string_view bytes);

// Whether the first character is half of a surrogate pair, which no other program takes.
inline bool is_surrogate(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\xed' && (bytes[1] & '\x20') != 0;
}

}  // namespace ashlar
