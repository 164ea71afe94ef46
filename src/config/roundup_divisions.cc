// SPDX-License-Identifier: Apache-2.0
//
// Slot i of the array covers requests of [2^i, 2^(i+1)) MiB. The first slot also covers smaller
// requests, the last slot larger requests.
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
constexpr uint64_t kMaxDivisions = uint64_t{1} << 20;
constexpr size_t kLastSlot = AllocatorOptions::kRoundupSlotCount - 1;
constexpr std::string_view kExpectedEntries =
    "size:divisions,… in powers of two, with sizes up to 32768, divisions up to 1048576 or 0, and "
    "> last";

Result<RoundupDivisions> parse_list(const OptionInput& whole);

std::string entry_text(std::string_view name, uint32_t divisions) {
  return std::string(name) + ":" + std::to_string(divisions);
}

}  // namespace

// Parses a list or a single number. A single number must be a power of two; 0 is allowed only in a
// list.
Result<RoundupDivisions> parse_roundup_divisions(const OptionInput& input) {
  if (input.given.is_list) return parse_list(input);
  const std::optional<uint64_t> divisions = parse_whole_number(input.given.value);
  if (!divisions || !std::has_single_bit(*divisions)) {
    return wrong_value(input, "is not a power of two");
  }
  if (*divisions > kMaxDivisions) return wrong_value(input, "is out of range");
  RoundupDivisions all;
  all.fill(static_cast<uint32_t>(*divisions));
  return all;
}

namespace {

Result<uint32_t> parse_divisions(const OptionInput& input) {
  const std::optional<uint64_t> divisions = parse_whole_number(input.given.value);
  if (!divisions || (*divisions != 0 && !std::has_single_bit(*divisions))) {
    return wrong_value(input, "is neither 0 nor a power of two");
  }
  if (*divisions > kMaxDivisions) return wrong_value(input, "is out of range");
  return static_cast<uint32_t>(*divisions);
}

// Returns the slot of an entry's size, such as "256". PyTorch applies sizes above the last slot to
// the last slot.
Result<size_t> parse_slot(const OptionInput& input, const ListEntry& entry) {
  const std::optional<uint64_t> mib = parse_whole_number(entry.name);
  if (!mib || !std::has_single_bit(*mib)) {
    return wrong_value(input, text("has ", in_quotes(entry.name), ", which is not a power of two"));
  }
  const auto slot = static_cast<size_t>(std::countr_zero(*mib));
  if (slot <= kLastSlot) return slot;
  if (input.options.pytorch_compatible) return kLastSlot;
  return wrong_value(input, text("has ", in_quotes(entry.name), ", which is out of range"));
}

Result<RoundupDivisions> parse_list(const OptionInput& whole) {
  const OptionInput input = {
      .given = whole.given, .expected = kExpectedEntries, .options = whole.options};
  RoundupDivisions divisions{};
  std::vector<size_t> slots;  // slots of the entries parsed so far
  const std::vector<ListEntry>& entries = input.given.entries;
  if (entries.empty()) return wrong_value(input, "is an empty list");
  for (const ListEntry& entry : entries) {
    const Result<uint32_t> wanted = parse_entry(input, entry, parse_divisions);
    if (!wanted.ok()) return wanted.status();
    if (entry.name == kAbove) {
      const bool is_last = &entry == &entries.back();
      if (slots.empty() || !is_last) return wrong_value(input, "has \">\" in the wrong place");
      std::fill(divisions.begin() + slots.back() + 1, divisions.end(), *wanted);
      break;
    }
    const Result<size_t> slot = parse_slot(input, entry);
    if (!slot.ok()) return slot.status();
    const bool may_repeat = input.options.pytorch_compatible && *slot == kLastSlot;
    if (!may_repeat && std::find(slots.begin(), slots.end(), *slot) != slots.end()) {
      return wrong_value(input, text("has ", in_quotes(entry.name), " twice"));
    }
    if (slots.empty()) std::fill_n(divisions.begin(), *slot, *wanted);
    divisions[*slot] = *wanted;
    slots.push_back(*slot);
  }
  return divisions;
}

}  // namespace

std::string roundup_divisions_text(const RoundupDivisions& divisions) {
  // Equal slots at the start share the first entry; equal slots at the end share ">".
  const auto first_change = std::find_if(divisions.begin(), divisions.end(),
                                         [&](uint32_t each) { return each != divisions[0]; });
  if (first_change == divisions.end()) return std::to_string(divisions[0]);
  const auto last_change = std::find_if(divisions.rbegin(), divisions.rend(),
                                        [&](uint32_t each) { return each != divisions.back(); });
  const size_t first = static_cast<size_t>(first_change - divisions.begin()) - 1;
  const size_t last = static_cast<size_t>(divisions.rend() - last_change) - 1;

  std::string entries = entry_text(std::to_string(size_t{1} << first), divisions[first]);
  for (size_t slot = first + 1; slot <= last; ++slot) {
    // Slots without an entry are 0, but ">" applies after the last named slot.
    const bool is_needed = divisions[slot] != 0 || (slot == last && divisions.back() != 0);
    if (is_needed) entries += "," + entry_text(std::to_string(size_t{1} << slot), divisions[slot]);
  }
  if (divisions.back() != 0) entries += "," + entry_text(kAbove, divisions.back());
  return "[" + entries + "]";
}

}  // namespace ashlar
