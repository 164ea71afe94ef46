// SPDX-License-Identifier: Apache-2.0
//
// How long what is set stays, for every store that counts the time itself.
#pragma once

#include <chrono>
#include <optional>

namespace ashlar::symm {

// None: it has no end. 0 says so, and more than a century means it: an end beyond does not fit the
// clocks.
inline std::optional<std::chrono::nanoseconds> lifetime_of(std::chrono::milliseconds time_to_live) {
  const std::chrono::hours century(24 * 36525);
  if (time_to_live.count() <= 0 || time_to_live > century) return std::nullopt;
  return time_to_live;
}

}  // namespace ashlar::symm
