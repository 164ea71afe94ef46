// SPDX-License-Identifier: Apache-2.0
//
// The values that options have: how each kind is read from text, with what is said when it is
// wrong, and how it is written so that it reads back the same. allocator_option_table.cc says which
// option has which. Pure functions.
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

// What a read function needs to know. All of them return kInvalidArgument for a wrong value.
struct Reading {
  const OptionAssignment& given;
  std::string_view expected;        // completes "expected …" in messages
  const AllocatorOptions& options;  // with large_segment_bytes as this text sets it
};

// `max_split_size_mb: "12x" is not a number (expected 20–1048576)`.
Status wrong_value(const Reading& reading, std::string_view problem);

// Reads the value of a list's entry as if it stood alone; messages name option and entry.
template <typename T>
Result<T> read_entry(const Reading& list, const ListEntry& entry,
                     Result<T> (*read)(const Reading&)) {
  const std::string name = std::string(list.given.name) + ": " + excerpt(entry.name);
  const OptionAssignment alone = {.name = name, .value = entry.value};
  return read({.given = alone, .expected = list.expected, .options = list.options});
}

Result<bool> read_boolean(const Reading& reading);
std::string boolean_text(bool value);

// Sizes are in MiB. Decimals are taken where they come to whole bytes, so that every size can be
// written.
inline constexpr size_t kMostSizeMib = size_t{1} << 20;
Result<size_t> read_size_from(const Reading& reading, size_t least_bytes);
template <size_t kLeastMib>
Result<size_t> read_size(const Reading& reading) {
  return read_size_from(reading, kLeastMib << 20);
}
// At least a large segment. Messages give that bound as a number.
Result<size_t> read_size_from_large_segment(const Reading& reading);
std::string size_text(size_t bytes);

Result<double> read_fraction(const Reading& reading);          // [0, 1]
Result<double> read_fraction_between(const Reading& reading);  // (0, 1)
std::string fraction_text(double fraction);

// A path, and the name of a symbol, both as they are.
Result<std::string> read_path(const Reading& reading);
Result<std::string> read_symbol(const Reading& reading);
std::string plain_text(const std::string& value);

// A power of two up to 128.
Result<size_t> read_register_thread_count(const Reading& reading);
std::string count_text(size_t count);

// "0.5" of the device's capacity, or "8G" for 8 GiB.
Result<ReserveSize> read_reserve(const Reading& reading);
std::string reserve_text(const ReserveSize& reserve);

using ReserveByClass = std::map<std::string, ReserveSize>;
Result<ReserveByClass> read_reserve_by_class(const Reading& reading);
std::string reserve_by_class_text(const ReserveByClass& reserves);

}  // namespace ashlar
