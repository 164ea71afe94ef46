// SPDX-License-Identifier: Apache-2.0
//
// Hexadecimal digits are enough.
#include "http/token.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace ashlar::http {

Result<std::string> draw_token() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Status::device_fault("getrandom", errno, "no random bytes for a token");
  }
  std::string token;
  for (const uint8_t byte : bytes) {
    token += kDigits[byte >> 4];
    token += kDigits[byte & 15];
  }
  return token;
}

bool same_token(std::string_view given, std::string_view wanted) {
  if (given.size() != wanted.size()) return false;
  uint8_t difference = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    difference = static_cast<uint8_t>(
        difference | (static_cast<uint8_t>(given[i]) ^ static_cast<uint8_t>(wanted[i])));
  }
  return difference == 0;
}

}  // namespace ashlar::http
