// SPDX-License-Identifier: Apache-2.0
//
// Parses and formats sizes and counts.
#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace ashlar {
namespace {

constexpr std::string_view kUnitLetters = "KMGTP";

Status not_a_size(std::string_view given) {
  return Status::format(text("\"", given, "\" is not a size (expected a number of bytes with an ",
                             "optional unit, such as 80GiB)"));
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Returns the power of 1024 that the unit denotes; -1 if the unit is unknown.
int unit_power(std::string_view unit) {
  if (unit.empty()) return 0;
  const char first = static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0])));
  if (first == 'B' && unit.size() == 1) return 0;
  const size_t letter = kUnitLetters.find(first);
  if (letter == std::string_view::npos) return -1;
  std::string rest;
  for (char c : unit.substr(1)) rest += lower(c);
  const bool known = rest.empty() || rest == "b" || rest == "ib";
  return known ? static_cast<int>(letter) + 1 : -1;
}

}  // namespace

Result<size_t> parse_bytes(std::string_view given) {
  const std::string digits(given.substr(0, given.find_first_not_of("0123456789.")));
  std::string_view unit = given.substr(digits.size());
  if (!unit.empty() && unit[0] == ' ') unit.remove_prefix(1);

  const int power = unit_power(unit);
  const bool is_number = !digits.empty() && digits != "." &&
                         digits.find('.') == digits.rfind('.') && digits.size() <= 24;
  if (power < 0 || !is_number) return not_a_size(given);

  // Unlike strtold, from_chars ignores the locale. On x86-64 and aarch64 a long double represents
  // every integer below 2^63, so whole bytes are exact.
  long double number = 0;
  const char* end = digits.data() + digits.size();
  const std::from_chars_result read = std::from_chars(digits.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end) return not_a_size(given);
  const long double bytes = std::ldexp(number, power * 10);
  if (bytes >= 0x1p63L) return not_a_size(given);
  if (bytes != std::floor(bytes)) {
    return Status::format(
        text("\"", given, "\" is not a whole number of bytes (expected a size ", "such as 80GiB)"));
  }
  return static_cast<size_t>(bytes);
}

std::string format_bytes(size_t bytes) {
  if (bytes < kKiB) return text(bytes, " B");
  int power = 1;
  while (power < static_cast<int>(kUnitLetters.size()) && (bytes >> (10 * power)) >= kKiB) ++power;
  const size_t whole = bytes >> (10 * power);
  // The remainder is in units of 1/1024, which is precise enough for two decimals.
  const size_t remainder = (bytes >> (10 * (power - 1))) % kKiB;
  const size_t hundredths = whole * 100 + (remainder * 100 + kKiB / 2) / kKiB;
  return text(hundredths / 100, hundredths % 100 < 10 ? ".0" : ".", hundredths % 100, " ",
              kUnitLetters[static_cast<size_t>(power) - 1], "iB");
}

std::string group_digits(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, 1, ',');
  return digits;
}

std::string format_times(uint64_t count) {
  return count == 1 ? "once" : group_digits(count) + " times";
}

}  // namespace ashlar
