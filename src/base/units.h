// SPDX-License-Identifier: Apache-2.0
//
// Parsing and formatting of sizes, such as "141GiB", "512" or "1.5 MiB", and of counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ashlar/status.h"

namespace ashlar {

inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kGiB = size_t{1} << 30;

// Parses a number, optionally with decimals, and an optional unit: B, K, KB, KiB and so on up to P.
// All units are powers of 1024, as in accelerator tools. Case and one space before the unit are
// ignored. kFormat: `text` is not a size, or the size is not a whole number of bytes below 2^63.
Result<size_t> parse_bytes(std::string_view text);

// Formats a size as "512 B", "20.00 MiB" or "141.00 GiB". Sizes of 1 KiB and more are rounded to
// two decimals.
std::string format_bytes(size_t bytes);

// Formats 3145728 as "3,145,728".
std::string group_digits(uint64_t number);

// Formats 1 as "once" and 3000 as "3,000 times".
std::string format_times(uint64_t count);

}  // namespace ashlar
