// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing values, kind by kind in the order of the header.
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

constexpr size_t kMostRegisterThreads = 128;  // as PyTorch has it
constexpr double kMostReserveGib = 1 << 20;

// The whole number of bytes that `number` units come to; empty when they do not.
std::optional<size_t> whole_bytes(double number, size_t unit_bytes) {
  const double bytes = number * static_cast<double>(unit_bytes);
  if (bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<size_t>(bytes);
}

}  // namespace

Status wrong_value(const Reading& reading, std::string_view problem) {
  return Status::invalid_argument(text(reading.given.name, ": ", in_quotes(reading.given.value),
                                       " ", problem, " (expected ", reading.expected, ")"));
}

Result<bool> read_boolean(const Reading& reading) {
  if (reading.given.value == "True") return true;
  if (reading.given.value == "False") return false;
  return wrong_value(reading, "is not a boolean");
}

std::string boolean_text(bool value) { return value ? "True" : "False"; }

Result<size_t> read_size_from(const Reading& reading, size_t least_bytes) {
  const std::optional<double> mib = parse_decimal(reading.given.value, DecimalForm::kPlain);
  if (!mib) return wrong_value(reading, "is not a number");
  const bool is_in_range = *mib >= static_cast<double>(least_bytes) / static_cast<double>(kMiB) &&
                           *mib <= static_cast<double>(kMostSizeMib);
  if (!is_in_range) return wrong_value(reading, "is out of range");
  const std::optional<size_t> bytes = whole_bytes(*mib, kMiB);
  if (!bytes) return wrong_value(reading, "is not a whole number of bytes");
  return *bytes;
}

Result<size_t> read_size_from_large_segment(const Reading& reading) {
  const size_t least_bytes = reading.options.large_segment_bytes;
  // The row says "large_segment_size_mb–…"; a message can say how much that is.
  const size_t dash = reading.expected.find("–");
  ASHLAR_CHECK(dash != std::string_view::npos);
  const std::string expected = text(size_text(least_bytes), reading.expected.substr(dash));
  return read_size_from({.given = reading.given, .expected = expected, .options = reading.options},
                        least_bytes);
}

std::string size_text(size_t bytes) {
  return decimal_text(static_cast<double>(bytes) / static_cast<double>(kMiB), DecimalForm::kPlain);
}

Result<double> read_fraction(const Reading& reading) {
  const std::optional<double> number =
      parse_decimal(reading.given.value, DecimalForm::kExponentAllowed);
  if (!number) return wrong_value(reading, "is not a number");
  if (!(*number >= 0 && *number <= 1)) return wrong_value(reading, "is out of range");
  return *number;
}

Result<double> read_fraction_between(const Reading& reading) {
  Result<double> fraction = read_fraction(reading);
  const bool is_end = fraction.ok() && (*fraction == 0 || *fraction == 1);
  if (is_end) return wrong_value(reading, "is out of range");
  return fraction;
}

std::string fraction_text(double fraction) {
  return decimal_text(fraction, DecimalForm::kExponentAllowed);
}

Result<std::string> read_path(const Reading& reading) {
  const std::string_view given = reading.given.value;
  const auto is_control = [](char c) { return c >= 0 && c < ' '; };
  if (reading.given.is_list || std::any_of(given.begin(), given.end(), is_control)) {
    return wrong_value(reading, "is not a path");
  }
  return std::string(given);
}

Result<std::string> read_symbol(const Reading& reading) {
  const std::string_view given = reading.given.value;
  const auto is_word = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (reading.given.is_list || !std::all_of(given.begin(), given.end(), is_word)) {
    return wrong_value(reading, "is not a name in C");
  }
  return std::string(given);
}

std::string plain_text(const std::string& value) { return value; }

Result<size_t> read_register_thread_count(const Reading& reading) {
  const std::optional<uint64_t> count = parse_whole_number(reading.given.value);
  if (!count || !std::has_single_bit(*count)) {
    return wrong_value(reading, "is not a power of two");
  }
  if (*count > kMostRegisterThreads) return wrong_value(reading, "is out of range");
  return size_t{*count};
}

std::string count_text(size_t count) { return std::to_string(count); }

Result<ReserveSize> read_reserve(const Reading& reading) {
  std::string_view word = reading.given.value;
  const bool is_gib = word.ends_with('G');
  if (is_gib) word.remove_suffix(1);
  const std::optional<double> number =
      parse_decimal(word, is_gib ? DecimalForm::kPlain : DecimalForm::kExponentAllowed);
  if (!number) return wrong_value(reading, "is neither a fraction nor a number of GiB");
  const double most = is_gib ? kMostReserveGib : std::numeric_limits<double>::max();
  if (!(*number > 0 && *number <= most)) return wrong_value(reading, "is out of range");
  if (!is_gib) return ReserveSize{.capacity_fraction = *number};

  const std::optional<size_t> bytes = whole_bytes(*number, kGiB);
  if (!bytes) return wrong_value(reading, "is not a whole number of bytes");
  return ReserveSize{.bytes = *bytes};
}

std::string reserve_text(const ReserveSize& reserve) {
  if (reserve.bytes == 0) return fraction_text(reserve.capacity_fraction);
  const double gib = static_cast<double>(reserve.bytes) / static_cast<double>(kGiB);
  return decimal_text(gib, DecimalForm::kPlain) + "G";
}

Result<ReserveByClass> read_reserve_by_class(const Reading& reading) {
  if (!reading.given.is_list) return wrong_value(reading, "is not a list");
  const Reading list = {.given = reading.given,
                        .expected = "a fraction above 0, or GiB up to 1048576G",
                        .options = reading.options};
  ReserveByClass reserves;
  for (const ListEntry& entry : reading.given.entries) {
    const Result<ReserveSize> reserve = read_entry(list, entry, read_reserve);
    if (!reserve.ok()) return reserve.status();
    const bool is_new = reserves.emplace(entry.name, *reserve).second;
    if (!is_new) return wrong_value(reading, text("has ", in_quotes(entry.name), " twice"));
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
