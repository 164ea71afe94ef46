// SPDX-License-Identifier: Apache-2.0
//
// Implements one pair of functions per kind of value, in the order of the header.
#include "config/option_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "config/numbers.h"

namespace ashlar {
namespace {

constexpr size_t kMaxRegisterThreads = 128;  // PyTorch's limit
constexpr double kMaxReserveGib = 1 << 20;

// Converts `number` units to bytes; nullopt if the result is not a whole number.
std::optional<size_t> whole_bytes(double number, size_t unit_bytes) {
  const double bytes = number * static_cast<double>(unit_bytes);
  if (bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<size_t>(bytes);
}

}  // namespace

Status wrong_value(const OptionInput& input, std::string_view problem) {
  return Status::invalid_argument(text(input.given.name, ": ", in_quotes(input.given.value), " ",
                                       problem, " (expected ", input.expected, ")"));
}

Result<bool> parse_boolean(const OptionInput& input) {
  if (input.given.value == "True") return true;
  if (input.given.value == "False") return false;
  return wrong_value(input, "is not a boolean");
}

std::string boolean_text(bool value) { return value ? "True" : "False"; }

Result<size_t> parse_size_from(const OptionInput& input, size_t min_bytes) {
  const std::optional<double> mib = parse_decimal(input.given.value, DecimalForm::kPlain);
  if (!mib) return wrong_value(input, "is not a number");
  const bool is_in_range = *mib >= static_cast<double>(min_bytes) / static_cast<double>(kMiB) &&
                           *mib <= static_cast<double>(kMaxSizeMib);
  if (!is_in_range) return wrong_value(input, "is out of range");
  const std::optional<size_t> bytes = whole_bytes(*mib, kMiB);
  if (!bytes) return wrong_value(input, "is not a whole number of bytes");
  return *bytes;
}

Result<size_t> parse_size_from_large_segment(const OptionInput& input) {
  const size_t min_bytes = input.options.large_segment_bytes;
  // Replaces "large_segment_size_mb", the text before the dash, by its value.
  const size_t dash = input.expected.find("–");
  ASHLAR_CHECK(dash != std::string_view::npos);
  const std::string expected = text(size_text(min_bytes), input.expected.substr(dash));
  return parse_size_from({.given = input.given, .expected = expected, .options = input.options},
                         min_bytes);
}

std::string size_text(size_t bytes) {
  return decimal_text(static_cast<double>(bytes) / static_cast<double>(kMiB), DecimalForm::kPlain);
}

Result<double> parse_fraction(const OptionInput& input) {
  const std::optional<double> number =
      parse_decimal(input.given.value, DecimalForm::kExponentAllowed);
  if (!number) return wrong_value(input, "is not a number");
  if (!(*number >= 0 && *number <= 1)) return wrong_value(input, "is out of range");
  return *number;
}

Result<double> parse_fraction_exclusive(const OptionInput& input) {
  Result<double> fraction = parse_fraction(input);
  const bool is_bound = fraction.ok() && (*fraction == 0 || *fraction == 1);
  if (is_bound) return wrong_value(input, "is out of range");
  return fraction;
}

std::string fraction_text(double fraction) {
  return decimal_text(fraction, DecimalForm::kExponentAllowed);
}

Result<std::string> parse_path(const OptionInput& input) {
  const std::string_view given = input.given.value;
  const auto is_control = [](char c) { return c >= 0 && c < ' '; };
  if (input.given.is_list || std::any_of(given.begin(), given.end(), is_control)) {
    return wrong_value(input, "is not a path");
  }
  return std::string(given);
}

Result<std::string> parse_symbol(const OptionInput& input) {
  const std::string_view given = input.given.value;
  const auto is_word = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (input.given.is_list || !std::all_of(given.begin(), given.end(), is_word)) {
    return wrong_value(input, "is not a name in C");
  }
  return std::string(given);
}

std::string plain_text(const std::string& value) { return value; }

Result<size_t> parse_register_thread_count(const OptionInput& input) {
  const std::optional<uint64_t> count = parse_whole_number(input.given.value);
  if (!count || !std::has_single_bit(*count)) {
    return wrong_value(input, "is not a power of two");
  }
  if (*count > kMaxRegisterThreads) return wrong_value(input, "is out of range");
  return size_t{*count};
}

std::string count_text(size_t count) { return std::to_string(count); }

Result<ReserveSize> parse_reserve(const OptionInput& input) {
  std::string_view word = input.given.value;
  const bool is_gib = word.ends_with('G');
  if (is_gib) word.remove_suffix(1);
  const std::optional<double> number =
      parse_decimal(word, is_gib ? DecimalForm::kPlain : DecimalForm::kExponentAllowed);
  if (!number) return wrong_value(input, "is neither a fraction nor a number of GiB");
  const double max = is_gib ? kMaxReserveGib : std::numeric_limits<double>::max();
  if (!(*number > 0 && *number <= max)) return wrong_value(input, "is out of range");
  if (!is_gib) return ReserveSize{.capacity_fraction = *number};

  const std::optional<size_t> bytes = whole_bytes(*number, kGiB);
  if (!bytes) return wrong_value(input, "is not a whole number of bytes");
  return ReserveSize{.bytes = *bytes};
}

std::string reserve_text(const ReserveSize& reserve) {
  if (reserve.bytes == 0) return fraction_text(reserve.capacity_fraction);
  const double gib = static_cast<double>(reserve.bytes) / static_cast<double>(kGiB);
  return decimal_text(gib, DecimalForm::kPlain) + "G";
}

Result<ReserveByClass> parse_reserve_by_class(const OptionInput& input) {
  if (!input.given.is_list) return wrong_value(input, "is not a list");
  const OptionInput list = {.given = input.given,
                            .expected = "a fraction above 0, or GiB up to 1048576G",
                            .options = input.options};
  ReserveByClass reserves;
  for (const ListEntry& entry : input.given.entries) {
    const Result<ReserveSize> reserve = parse_entry(list, entry, parse_reserve);
    if (!reserve.ok()) return reserve.status();
    const bool is_new = reserves.emplace(entry.name, *reserve).second;
    if (!is_new) return wrong_value(input, text("has ", in_quotes(entry.name), " twice"));
  }
  return reserves;
}

std::string reserve_by_class_text(const ReserveByClass& reserves) {
  std::string entries;
  for (const auto& [name, reserve] : reserves) {
    entries += text(entries.empty() ? "" : ",", name, ":", reserve_text(reserve));
  }
  return text("[", entries, "]");
}

}  // namespace ashlar
