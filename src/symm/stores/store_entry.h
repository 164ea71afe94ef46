// SPDX-License-Identifier: Apache-2.0
//
// Rules shared by the stores that keep their own entries: counters and lifetimes.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ashlar/status.h"
#include "base/text.h"

namespace ashlar::symm {

// kFormat: `digits` is no number. kInvalidArgument: the sum does not fit.
inline Result<int64_t> sum_of(std::string_view key, std::string_view digits, int64_t amount) {
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [read_to, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || read_to != end) {
    return Status::format(text("key ", key, " holds no counter: nothing can be added to it"));
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(value, amount, &sum)) {
    return Status::invalid_argument(
        text("counter ", key, ": ", value, " and ", amount, " do not fit 64 bits"));
  }
  return sum;
}

// None: it has no end. 0 says so, and more than a century means it: an end beyond does not fit the
// clocks.
inline std::optional<std::chrono::nanoseconds> lifetime_of(std::chrono::milliseconds time_to_live) {
  const std::chrono::hours century(24 * 36525);
  if (time_to_live.count() <= 0 || time_to_live > century) return std::nullopt;
  return time_to_live;
}

}  // namespace ashlar::symm
