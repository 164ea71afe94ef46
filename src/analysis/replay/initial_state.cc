// SPDX-License-Identifier: Apache-2.0
//
// Undoes the segment events from the final state, then places the allocations that predate the
// trace.
#include "analysis/replay/initial_state.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace ashlar {
namespace {

using Segments = std::map<uint64_t, SnapshotSegment>;  // keyed by address

void undo(const TraceEntry& entry, Segments& segments, InitialState& start) {
  switch (entry.action) {
    case TraceAction::kSegmentAlloc: segments.erase(entry.address.value()); break;
    case TraceAction::kSegmentFree: {
      SnapshotSegment segment;
      segment.device = entry.device;
      segment.address = entry.address;
      segment.total_bytes = entry.bytes;
      segment.stream = entry.stream;
      segment.is_large = is_large_segment(entry.bytes);
      segment.pool = entry.pool;
      segments[entry.address.value()] = segment;
      break;
    }
    case TraceAction::kSegmentMap:
      start.expandable_bytes -= std::min(start.expandable_bytes, entry.bytes);
      break;
    case TraceAction::kSegmentUnmap: start.expandable_bytes += entry.bytes; break;
    default: break;
  }
}

// Returns the sizes of the final blocks, keyed by address, for allocations that are never freed.
std::unordered_map<uint64_t, size_t> final_block_bytes(const Snapshot& snapshot,
                                                       DeviceIndex device) {
  std::unordered_map<uint64_t, size_t> bytes;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device) continue;
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.bytes > 0) bytes[block.address.value()] = block.bytes;
    }
  }
  return bytes;
}

// Fills the segment with the blocks in use, which are sorted by address, and free blocks between
// them.
void fill_segment(SnapshotSegment& segment, std::vector<SnapshotBlock> used) {
  segment.blocks.clear();
  uint64_t at = segment.address.value();
  const uint64_t end = at + segment.total_bytes;
  for (size_t i = 0; i <= used.size(); ++i) {
    const uint64_t next = i < used.size() ? used[i].address.value() : end;
    if (next > at) {
      segment.blocks.push_back(
          {DeviceAddress(at), next - at, 0, SnapshotBlockState::kInactive, {}});
    }
    if (i == used.size()) break;
    const uint64_t limit = i + 1 < used.size() ? used[i + 1].address.value() : end;
    const size_t available = limit - next;
    const size_t remainder = available - std::min(available, used[i].bytes);
    // A block keeps a remainder that is too small to split off.
    const bool fills =
        segment.is_large ? remainder <= kSmallLimitBytes : remainder < kMinBlockBytes;
    if (fills) used[i].bytes = available;
    segment.blocks.push_back(used[i]);
    at = next + used[i].bytes;
  }
}

}  // namespace

std::vector<uint32_t> preexisting_allocations(const Allocations& allocations) {
  const auto address = [&](uint32_t id) { return allocations.all[id].address; };
  std::vector<uint32_t> before;
  for (uint32_t id = 0; id < allocations.all.size(); ++id) {
    const Allocation& allocation = allocations.all[id];
    if (allocation.predates_trace() && allocation.bytes > 0) before.push_back(id);
  }
  std::stable_sort(before.begin(), before.end(),
                   [&](uint32_t a, uint32_t b) { return address(a) < address(b); });
  const auto same = [&](uint32_t a, uint32_t b) { return address(a) == address(b); };
  before.erase(std::unique(before.begin(), before.end(), same), before.end());
  return before;
}

InitialState reconstruct_initial_state(const Snapshot& snapshot, DeviceIndex device,
                                       const Allocations& allocations,
                                       const RecordedSizePolicy& sizes) {
  InitialState start;
  Segments segments;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device) continue;
    if (segment.is_expandable) {
      start.expandable_bytes += segment.reserved_bytes();
    } else {
      segments[segment.address.value()] = segment;
    }
  }
  if (device.value() < snapshot.device_traces.size()) {
    const std::vector<TraceEntry>& trace = snapshot.device_traces[device.value()];
    for (auto entry = trace.rbegin(); entry != trace.rend(); ++entry) {
      undo(*entry, segments, start);
    }
  }

  const std::unordered_map<uint64_t, size_t> final_bytes = final_block_bytes(snapshot, device);
  const std::vector<uint32_t> before = preexisting_allocations(allocations);
  auto next = before.begin();
  for (auto& [address, segment] : segments) {
    if (segment.total_bytes == 0) continue;
    const AddressRange range{segment.address, segment.total_bytes};
    std::vector<SnapshotBlock> used;
    while (next != before.end() && allocations.all[*next].address < range.end()) {
      const Allocation& allocation = allocations.all[*next++];
      if (!range.contains(allocation.address)) continue;
      const size_t requested = std::min(allocation.bytes, segment.total_bytes);
      SnapshotBlock block{allocation.address, sizes.block_bytes(requested), requested,
                          SnapshotBlockState::kAllocated, allocation.stack};
      const auto known = final_bytes.find(allocation.address.value());
      const bool was_never_freed = allocation.free_entry == Allocation::kNoEntry;
      if (was_never_freed && known != final_bytes.end()) block.bytes = known->second;
      const bool overlaps =
          !used.empty() && used.back().address + used.back().bytes > block.address;
      if (overlaps) used.back().bytes = block.address - used.back().address;
      used.push_back(block);
      start.allocations.push_back(*std::prev(next));
    }
    fill_segment(segment, std::move(used));
    start.segments.push_back(std::move(segment));
  }
  return start;
}

}  // namespace ashlar
