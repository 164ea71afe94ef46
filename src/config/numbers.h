// SPDX-License-Identifier: Apache-2.0
//
// Locale-independent parsing and formatting of numbers. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar {

// Parses a decimal integer; empty if `word` is anything else or overflows.
std::optional<uint64_t> parse_whole_number(std::string_view word);

enum class DecimalForm { kPlain, kExponentAllowed };
// Parses "0.5", "-2" and, with kExponentAllowed, "1e-3". Rejects infinity and NaN. Empty if `word`
// is not a number; infinite if it overflows.
std::optional<double> parse_decimal(std::string_view word, DecimalForm form);

// The shortest text that parse_decimal converts back to `number`. REQUIRES with kPlain: 0, or a
// magnitude from 2^-30 to 2^64.
std::string decimal_text(double number, DecimalForm form);

}  // namespace ashlar
