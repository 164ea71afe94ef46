// SPDX-License-Identifier: Apache-2.0
//
// The allocations of a recorded run: each from its making to its end, where a trace has them as
// separate entries. What everything that asks about a trace begins with. Pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ashlar/snapshot.h"

namespace ashlar {

// Entries are named by their position in the device's trace.
struct Allocation {
  static constexpr uint32_t kNever = UINT32_MAX;

  uint32_t made = kNever;       // kNever: it was there before the trace began
  uint32_t freed = kNever;      // by its owner; kNever: it was not
  uint32_t completed = kNever;  // when its memory could be used again
  DeviceAddress address{};
  size_t bytes = 0;  // as requested
  StreamId stream{};
  PoolId pool{};
  StackId stack{};

  bool was_there_before() const { return made == kNever; }
};

// An allocation whose address was handed out again though nobody saw it come back: it ended with
// the entry that did so. That entry leads to the new allocation, so this one stands here.
struct DisplacedAllocation {
  uint32_t entry = 0;
  uint32_t allocation = 0;  // position in Allocations::all
};

// Of one device. An entry that begins, ends or completes an allocation leads to it; kNever: another
// kind of entry, or one that makes no sense where it stands.
struct Allocations {
  std::vector<Allocation> all;     // in the order of their first entries; never seen ones last
  std::vector<uint32_t> of_entry;  // by entry
  std::vector<DisplacedAllocation> displaced;  // in the order of entries, at most one for each
  uint32_t before_count = 0;                   // how many were there before
};

// Calls visit(entry, allocation) for every entry that changes one, in order; where an allocation is
// displaced, it goes before the new one comes.
template <typename Visit>
void for_each_change(const Allocations& allocations, Visit visit) {
  auto displaced = allocations.displaced.begin();
  for (uint32_t entry = 0; entry < allocations.of_entry.size(); ++entry) {
    if (displaced != allocations.displaced.end() && displaced->entry == entry) {
      visit(entry, allocations.all[(displaced++)->allocation]);
    }
    const uint32_t id = allocations.of_entry[entry];
    if (id != Allocation::kNever) visit(entry, allocations.all[id]);
  }
}

// The size class of an allocation in tables: n with 2^n <= bytes < 2^(n + 1), and 0 for 0 bytes.
constexpr uint32_t size_class_of(size_t bytes) {
  return bytes == 0 ? 0 : static_cast<uint32_t>(std::bit_width(bytes)) - 1;
}

// Takes a trace as it comes: without its beginning, or with kinds of entries left out. Blocks that
// are live at the end and have no entry are allocations, too. REQUIRES: fewer than 2^32 entries.
Allocations find_allocations(const Snapshot& snapshot, DeviceIndex device);

}  // namespace ashlar
