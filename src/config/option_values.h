// SPDX-License-Identifier: Apache-2.0
//
// Parsing and formatting of option values, one pair of functions per kind of value.
// allocator_option_table.cc assigns kinds to options. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ashlar/options.h"
#include "ashlar/status.h"
#include "config/option_text.h"

namespace ashlar {

// The input of a parse function. All parse functions return kInvalidArgument for a wrong value.
struct OptionInput {
  const OptionAssignment& given;
  std::string_view expected;  // completes "expected …" in messages
  // Includes large_segment_bytes and pytorch_compatible as set by the same text.
  const AllocatorOptions& options;
};

// Returns an error such as `max_split_size_mb: "12x" is not a number (expected 20–1048576 or
// unlimited)`.
Status wrong_value(const OptionInput& input, std::string_view problem);

// Parses the value of a list entry with `parse`. Messages name the option and the entry.
template <typename T>
Result<T> parse_entry(const OptionInput& list, const ListEntry& entry,
                      Result<T> (*parse)(const OptionInput&)) {
  const std::string name = std::string(list.given.name) + ": " + excerpt(entry.name);
  const OptionAssignment assignment = {.name = name, .value = entry.value};
  return parse({.given = assignment, .expected = list.expected, .options = list.options});
}

Result<bool> parse_boolean(const OptionInput& input);
std::string boolean_text(bool value);

inline constexpr size_t kMaxSizeMib = size_t{1} << 20;
// Parses a size in MiB. Decimals are accepted if they denote a whole number of bytes.
Result<size_t> parse_size_from(const OptionInput& input, size_t min_bytes);
template <size_t kMinMib>
Result<size_t> parse_size(const OptionInput& input) {
  return parse_size_from(input, kMinMib << 20);
}
// Parses a size of at least OptionInput::options.large_segment_bytes. Error messages state this
// bound as a number.
Result<size_t> parse_size_from_large_segment(const OptionInput& input);
std::string size_text(size_t bytes);

Result<double> parse_fraction(const OptionInput& input);            // [0, 1]
Result<double> parse_fraction_exclusive(const OptionInput& input);  // (0, 1)
std::string fraction_text(double fraction);

// parse_path accepts paths without control characters; parse_symbol accepts names of ASCII letters,
// digits and underscores.
Result<std::string> parse_path(const OptionInput& input);
Result<std::string> parse_symbol(const OptionInput& input);
std::string plain_text(const std::string& value);

// Parses a power of two up to 128.
Result<size_t> parse_register_thread_count(const OptionInput& input);
std::string count_text(size_t count);

// Parses a fraction of the device's capacity ("0.5") or a size ("8G" for 8 GiB).
Result<ReserveSize> parse_reserve(const OptionInput& input);
std::string reserve_text(const ReserveSize& reserve);

using ReserveByClass = std::map<std::string, ReserveSize>;
Result<ReserveByClass> parse_reserve_by_class(const OptionInput& input);
std::string reserve_by_class_text(const ReserveByClass& reserves);

}  // namespace ashlar
