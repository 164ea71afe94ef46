// SPDX-License-Identifier: Apache-2.0
//
// Locale-independent parsing and formatting of numbers. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar {

// Parses a decimal integer without a sign. Returns nullopt if `word` is anything else or overflows.
std::optional<uint64_t> parse_whole_number(std::string_view word);

enum class DecimalForm { kPlain, kExponentAllowed };
// Parses "0.5", "-2" and, with kExponentAllowed, "1e-3". Returns nullopt if `word` is not a number,
// or is infinity or NaN. Returns infinity if the number is too large or too small for a double.
std::optional<double> parse_decimal(std::string_view word, DecimalForm form);

// Returns the shortest text that parse_decimal converts back to `number`. REQUIRES with kPlain:
// `number` is 0 or has a magnitude from 2^-30 to 2^64.
std::string decimal_text(double number, DecimalForm form);

}  // namespace ashlar
