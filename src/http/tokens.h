// SPDX-License-Identifier: Apache-2.0
//
// Access tokens of servers, and one-time tokens for browsers. Other users can read the command line
// with which a browser is started. The command line therefore contains a one-time token, which the
// server exchanges for the access token if the browser belongs to the same user. Thread safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "base/mutex.h"

namespace ashlar::http {

// Returns 128 random bits as hexadecimal digits. kDeviceFault: getrandom(2) failed.
Result<std::string> generate_token();

// Compares two tokens in time that depends only on their lengths.
bool tokens_equal(std::string_view given, std::string_view wanted);

class OneTimeTokens {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kLifetime{60};

  // Issues a new token and invalidates the previous token. kDeviceFault: random bytes are not
  // available.
  Result<std::string> issue(Time now);
  // Returns whether a token has ever been issued.
  bool has_issued() const;
  // Returns whether `token` is the newest token, has not expired and was not redeemed before. If
  // so, invalidates it.
  bool redeem(std::string_view token, Time now);

 private:
  mutable Mutex mutex_;
  bool has_issued_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::string token_ ASHLAR_GUARDED_BY(mutex_){};  // empty if no token is valid
  Time expires_at_ ASHLAR_GUARDED_BY(mutex_){};
};

}  // namespace ashlar::http
