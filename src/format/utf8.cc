// SPDX-License-Identifier: Apache-2.0
//
// Validates ASCII eight bytes at a time, and everything else character by character.
#include "format/utf8.h"

#include <cstdint>
#include <cstring>

namespace ashlar {

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

}  // namespace ashlar
