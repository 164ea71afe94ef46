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

// Returns the sum of `amount` and a counter, which a store keeps as decimal digits. Returns kFormat
// if `digits` is not a number, and kInvalidArgument if the sum overflows.
inline Result<int64_t> add_to_counter_text(std::string_view key, std::string_view digits,
                                           int64_t amount) {
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [read_to, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || read_to != end) {
    return Status::format(text("key ", key, " is not a counter: its value is not a number"));
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(value, amount, &sum)) {
    return Status::invalid_argument(
        text("counter ", key, ": the sum of ", value, " and ", amount, " exceeds 64 bits"));
  }
  return sum;
}

// Returns the lifetime of an entry, or nothing if the entry does not expire: its time to live is 0
// or negative, or longer than a century, which would overflow the clocks.
inline std::optional<std::chrono::nanoseconds> lifetime_of(std::chrono::milliseconds time_to_live) {
  const std::chrono::hours century(24 * 36525);
  if (time_to_live.count() <= 0 || time_to_live > century) return std::nullopt;
  return time_to_live;
}

}  // namespace ashlar::symm
