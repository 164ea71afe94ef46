// SPDX-License-Identifier: Apache-2.0
//
// Generates, compares and expires tokens.
#include "http/tokens.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace ashlar::http {

Result<std::string> generate_token() {
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

bool tokens_equal(std::string_view given, std::string_view wanted) {
  if (given.size() != wanted.size()) return false;
  uint8_t difference = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    difference = static_cast<uint8_t>(
        difference | (static_cast<uint8_t>(given[i]) ^ static_cast<uint8_t>(wanted[i])));
  }
  return difference == 0;
}

Result<std::string> OneTimeTokens::issue(Time now) {
  Result<std::string> token = generate_token();
  if (!token.ok()) return token;
  MutexLock lock(mutex_);
  has_issued_ = true;
  token_ = *token;
  expires_at_ = now + kLifetime;
  return token;
}

bool OneTimeTokens::has_issued() const {
  MutexLock lock(mutex_);
  return has_issued_;
}

bool OneTimeTokens::redeem(std::string_view token, Time now) {
  MutexLock lock(mutex_);
  const bool is_valid = !token_.empty() && now < expires_at_ && tokens_equal(token, token_);
  if (is_valid) token_.clear();
  return is_valid;
}

}  // namespace ashlar::http
