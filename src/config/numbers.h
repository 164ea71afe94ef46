// SPDX-License-Identifier: Apache-2.0
//
// Numbers as text and back, the same in every locale. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar {

// A whole decimal number and nothing else; empty when it is not one or does not fit.
std::optional<uint64_t> parse_whole_number(std::string_view word);

// "0.5", "-2" and, with kExponentAllowed, "1e-3", and nothing else: neither infinity nor NaN, which
// are no numbers to a user. Empty when it is not one; infinite when it does not fit.
enum class DecimalForm { kPlain, kExponentAllowed };
std::optional<double> parse_decimal(std::string_view word, DecimalForm form);

// The shortest text that parse_decimal reads back to the same number.
// REQUIRES with kPlain: 0, or a magnitude from 2^-30 to 2^64.
std::string decimal_text(double number, DecimalForm form);

}  // namespace ashlar
