// SPDX-License-Identifier: Apache-2.0
//
// The allocations of a recorded run, assembled from the alloc and free entries of a trace. They are
// the input of most analyses. Pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ashlar/snapshot.h"

namespace ashlar {

// An allocation with the trace entries that concern it. Entries are indexes into the device's
// trace.
struct Allocation {
  static constexpr uint32_t kNoEntry = UINT32_MAX;  // greater than every entry

  uint32_t alloc_entry = kNoEntry;  // kNoEntry: the allocation predates the trace
  // Indexes of the free_requested and free_completed entries. The memory can be reused after
  // free_completed. If the trace lacks one of the two entries, its field holds the index of the
  // next entry that implies the event. kNoEntry: the event did not happen within the trace.
  uint32_t free_entry = kNoEntry;
  uint32_t completed_entry = kNoEntry;
  DeviceAddress address{};
  size_t bytes = 0;  // requested size
  StreamId stream{};
  PoolId pool{};
  // The stack of the call that allocated; StackId(0): unknown, like most stacks of allocations that
  // predate the trace. Never the stack of a free.
  StackId stack{};

  bool predates_trace() const { return alloc_entry == kNoEntry; }
};

// An allocation whose address was allocated again although no completed free was recorded. The
// displaced allocation ends with the alloc entry of the new allocation, to which
// Allocations::by_entry assigns that entry.
struct DisplacedAllocation {
  uint32_t entry = 0;
  uint32_t allocation = 0;  // index into Allocations::all
};

// A request that failed, according to an oom entry.
struct FailedRequest {
  uint32_t entry = 0;
  size_t bytes = 0;  // rounded, because entries have no other size; below kRequestLimitBytes
};

// Which stack the trace entries of frees have.
enum class FreeStacks : uint8_t {
  kOfFree,        // that of the call that freed
  kOfAllocation,  // that of the allocation: PyTorch recorded only those, with context="alloc"
};

// The allocations of one device.
struct Allocations {
  std::vector<Allocation> all;  // sorted by first entry; allocations without entries last
  static constexpr uint32_t kNoAllocation = UINT32_MAX;

  // For each entry, the index into `all` of the allocation that it begins, frees or completes.
  // kNoAllocation: the entry has another action.
  std::vector<uint32_t> by_entry;
  std::vector<DisplacedAllocation> displaced;  // in the order of entries, at most one per entry
  std::vector<FailedRequest> failed;           // in the order of entries
  uint32_t preexisting_count = 0;              // allocations that predate the trace
  FreeStacks free_stacks = FreeStacks::kOfFree;
};

// Calls visit(entry, allocation) for every entry that changes an allocation, in order. A displaced
// allocation is visited before the allocation that displaces it.
template <typename Visit>
void for_each_change(const Allocations& allocations, Visit visit) {
  auto displaced = allocations.displaced.begin();
  for (uint32_t entry = 0; entry < allocations.by_entry.size(); ++entry) {
    if (displaced != allocations.displaced.end() && displaced->entry == entry) {
      visit(entry, allocations.all[(displaced++)->allocation]);
    }
    const uint32_t id = allocations.by_entry[entry];
    if (id != Allocations::kNoAllocation) visit(entry, allocations.all[id]);
  }
}

// Returns the size class by which reports group allocations: n with 2^n <= bytes < 2^(n + 1), and 0
// for 0 bytes.
constexpr uint32_t size_class_of(size_t bytes) {
  return bytes == 0 ? 0 : static_cast<uint32_t>(std::bit_width(bytes)) - 1;
}

// Returns the allocations of a device. The trace may be incomplete: its beginning or some kinds of
// entries may be missing. Blocks that are live at the end and have no entry count as allocations,
// too.
// REQUIRES: fewer than 2^32 entries.
Allocations find_allocations(const Snapshot& snapshot, DeviceIndex device);

}  // namespace ashlar
