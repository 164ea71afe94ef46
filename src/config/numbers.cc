// SPDX-License-Identifier: Apache-2.0
//
// Wraps std::from_chars and std::to_chars with stricter rules.
#include "config/numbers.h"

#include <array>
#include <charconv>
#include <limits>

#include "base/check.h"

namespace ashlar {
namespace {

std::chars_format to_chars_format(DecimalForm form) {
  return form == DecimalForm::kPlain ? std::chars_format::fixed : std::chars_format::general;
}

// Returns false for "inf" and "nan", which std::from_chars accepts.
bool starts_as_number(std::string_view word) {
  if (word.starts_with('-')) word.remove_prefix(1);
  return !word.empty() && std::string_view("0123456789.").find(word[0]) != std::string_view::npos;
}

}  // namespace

std::optional<uint64_t> parse_whole_number(std::string_view word) {
  uint64_t number = 0;
  const char* end = word.data() + word.size();
  const std::from_chars_result read = std::from_chars(word.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return number;
}

std::optional<double> parse_decimal(std::string_view word, DecimalForm form) {
  if (!starts_as_number(word)) return std::nullopt;
  double number = 0;
  const char* end = word.data() + word.size();
  const std::from_chars_result read =
      std::from_chars(word.data(), end, number, to_chars_format(form));
  if (read.ec == std::errc::invalid_argument || read.ptr != end) return std::nullopt;
  if (read.ec == std::errc{}) return number;
  return std::numeric_limits<double>::infinity();
}

std::string decimal_text(double number, DecimalForm form) {
  std::array<char, 64> digits{};
  const std::to_chars_result written =
      std::to_chars(digits.data(), digits.data() + digits.size(), number, to_chars_format(form));
  ASHLAR_CHECK(written.ec == std::errc{});
  return std::string(digits.data(), written.ptr);
}

}  // namespace ashlar
