// SPDX-License-Identifier: Apache-2.0
//
// Builds pickles by hand: each function returns the bytes of one value.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "format/byte_stream.h"

namespace ashlar::pickle {

template <typename Number>
std::string little_endian(Number number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
}

inline std::string number(int32_t value) { return "J" + little_endian(value); }
inline std::string large_number(uint64_t value) {
  return "\x8a\x09" + little_endian(value) + std::string(1, '\0');
}
inline std::string string(std::string_view value) {
  return "X" + little_endian(static_cast<uint32_t>(value.size())) + std::string(value);
}
inline std::string list(std::initializer_list<std::string> items) {
  std::string bytes = "](";
  for (const std::string& item : items) bytes += item;
  return bytes + "e";
}
inline std::string dict(std::initializer_list<std::pair<std::string_view, std::string>> items) {
  std::string bytes = "}(";
  for (const auto& [key, value] : items) bytes += string(key) + value;
  return bytes + "u";
}
inline std::string pair(int32_t first, int32_t second) {
  return number(first) + number(second) + "\x86";
}
inline std::string boolean(bool value) { return value ? "\x88" : "\x89"; }

// Returns a complete pickle: header, value and STOP.
inline std::string whole(std::string_view value) { return "\x80\x04" + std::string(value) + "."; }

inline std::string repeat(std::string_view part, size_t count) {
  std::string bytes;
  bytes.reserve(part.size() * count);
  for (size_t i = 0; i < count; ++i) bytes += part;
  return bytes;
}

}  // namespace ashlar::pickle
