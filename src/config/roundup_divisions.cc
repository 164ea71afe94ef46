// SPDX-License-Identifier: Apache-2.0
//
// Slot i of the array is for requests of [2^i, 2^(i+1)) MiB; the first and the last also take what
// is smaller and larger.
#include "config/roundup_divisions.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "base/text.h"
#include "config/numbers.h"

namespace ashlar {
namespace {

constexpr std::string_view kAbove = ">";
constexpr uint64_t kMostDivisions = uint64_t{1} << 20;
constexpr size_t kLastSlot = AllocatorOptions::kRoundupSlotCount - 1;
constexpr std::string_view kExpectedEntries =
    "size:divisions,… in powers of two, with sizes up to 32768, divisions up to 1048576 or 0, and "
    "> last";

Result<RoundupDivisions> read_list(const Reading& whole);

std::string entry_text(std::string_view name, uint32_t divisions) {
  return std::string(name) + ":" + std::to_string(divisions);
}

}  // namespace

// The one number must be a power of two; only within a list can 0 stand.
Result<RoundupDivisions> read_roundup_divisions(const Reading& reading) {
  if (reading.given.is_list) return read_list(reading);
  const std::optional<uint64_t> divisions = parse_whole_number(reading.given.value);
  if (!divisions || !std::has_single_bit(*divisions)) {
    return wrong_value(reading, "is not a power of two");
  }
  if (*divisions > kMostDivisions) return wrong_value(reading, "is out of range");
  RoundupDivisions all;
  all.fill(static_cast<uint32_t>(*divisions));
  return all;
}

namespace {

Result<uint32_t> read_divisions(const Reading& reading) {
  const std::optional<uint64_t> divisions = parse_whole_number(reading.given.value);
  if (!divisions || (*divisions != 0 && !std::has_single_bit(*divisions))) {
    return wrong_value(reading, "is neither 0 nor a power of two");
  }
  if (*divisions > kMostDivisions) return wrong_value(reading, "is out of range");
  return static_cast<uint32_t>(*divisions);
}

// The slot that an entry's "256" names.
Result<size_t> read_slot(const Reading& reading, const ListEntry& entry) {
  const std::optional<uint64_t> mib = parse_whole_number(entry.name);
  if (!mib || !std::has_single_bit(*mib)) {
    return wrong_value(reading, text("has ", in_quotes(entry.name), ", which is no power of two"));
  }
  const auto slot = static_cast<size_t>(std::countr_zero(*mib));
  if (slot <= kLastSlot) return slot;
  return wrong_value(reading, text("has ", in_quotes(entry.name), ", which is out of range"));
}

Result<RoundupDivisions> read_list(const Reading& whole) {
  const Reading reading = {
      .given = whole.given, .expected = kExpectedEntries, .options = whole.options};
  RoundupDivisions divisions{};
  std::vector<size_t> slots;  // that entries have named
  const std::vector<ListEntry>& entries = reading.given.entries;
  if (entries.empty()) return wrong_value(reading, "is an empty list");
  for (const ListEntry& entry : entries) {
    const Result<uint32_t> wanted = read_entry(reading, entry, read_divisions);
    if (!wanted.ok()) return wanted.status();
    if (entry.name == kAbove) {
      const bool is_last = &entry == &entries.back();
      if (slots.empty() || !is_last) return wrong_value(reading, "has \">\" at a wrong place");
      std::fill(divisions.begin() + slots.back() + 1, divisions.end(), *wanted);
      break;
    }
    const Result<size_t> slot = read_slot(reading, entry);
    if (!slot.ok()) return slot.status();
    if (std::find(slots.begin(), slots.end(), *slot) != slots.end()) {
      return wrong_value(reading, text("has ", in_quotes(entry.name), " twice"));
    }
    if (slots.empty()) std::fill_n(divisions.begin(), *slot, *wanted);
    divisions[*slot] = *wanted;
    slots.push_back(*slot);
  }
  return divisions;
}

}  // namespace

std::string roundup_divisions_text(const RoundupDivisions& divisions) {
  // The equal ones at the start share the first entry, the equal ones at the end share ">".
  const auto first_change = std::find_if(divisions.begin(), divisions.end(),
                                         [&](uint32_t each) { return each != divisions[0]; });
  if (first_change == divisions.end()) return std::to_string(divisions[0]);
  const auto last_change = std::find_if(divisions.rbegin(), divisions.rend(),
                                        [&](uint32_t each) { return each != divisions.back(); });
  const size_t first = static_cast<size_t>(first_change - divisions.begin()) - 1;
  const size_t last = static_cast<size_t>(divisions.rend() - last_change) - 1;

  std::string entries = entry_text(std::to_string(size_t{1} << first), divisions[first]);
  for (size_t slot = first + 1; slot <= last; ++slot) {
    // What no entry names is 0, but ">" starts after the last that one names.
    const bool is_needed = divisions[slot] != 0 || (slot == last && divisions.back() != 0);
    if (is_needed) entries += "," + entry_text(std::to_string(size_t{1} << slot), divisions[slot]);
  }
  if (divisions.back() != 0) entries += "," + entry_text(kAbove, divisions.back());
  return "[" + entries + "]";
}

}  // namespace ashlar
