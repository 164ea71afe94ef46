// SPDX-License-Identifier: Apache-2.0
//
// SegmentRanges applies segment events forwards and backwards. LayoutBuilder places the blocks with
// the allocator's rule for splitting.
#include "analysis/layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

#include "analysis/timeline.h"
#include "base/align.h"

namespace ashlar {
namespace {

// The address ranges of segments, without their blocks. Expandable and plain segments are in
// separate maps, so that remove_range(), which affects only expandable segments, skips the plain
// ones: in a small crafted file, each of thousands of mapped ranges may cover thousands of plain
// segments.
class SegmentRanges {
 public:
  using Ranges = std::map<uint64_t, SnapshotSegment>;  // keyed by address

  explicit SegmentRanges(DeviceIndex device) : device_(device) {}

  void add(const SnapshotSegment& segment) {
    if (AddressRange{segment.address, segment.total_bytes}.overflows()) return;
    if (segment.is_expandable) {
      add_range(segment);
    } else {
      expandable_.erase(segment.address.value());
      plain_[segment.address.value()] = segment;
    }
  }
  void apply(const TraceEntry& entry) {
    switch (entry.action) {
      case TraceAction::kSegmentAlloc:
      case TraceAction::kSegmentMap: obtain(entry); break;
      case TraceAction::kSegmentFree:
      case TraceAction::kSegmentUnmap: release(entry); break;
      default: break;
    }
  }
  void undo(const TraceEntry& entry) {
    switch (entry.action) {
      case TraceAction::kSegmentAlloc:
      case TraceAction::kSegmentMap: release(entry); break;
      case TraceAction::kSegmentFree:
      case TraceAction::kSegmentUnmap: obtain(entry); break;
      default: break;
    }
  }

  // Returns the segment that contains the address; null if there is none. If segments of an
  // inconsistent file overlap, only the one that begins last is considered.
  const SnapshotSegment* find(DeviceAddress at) const {
    const SnapshotSegment* plain = last_before(plain_, at);
    const SnapshotSegment* expandable = last_before(expandable_, at);
    const bool is_expandable =
        plain == nullptr || (expandable != nullptr && expandable->address > plain->address);
    const SnapshotSegment* candidate = is_expandable ? expandable : plain;
    if (candidate == nullptr) return nullptr;
    return AddressRange{candidate->address, candidate->total_bytes}.contains(at) ? candidate
                                                                                 : nullptr;
  }
  // Returns all segments in the order of their addresses.
  std::vector<const SnapshotSegment*> all() const {
    std::vector<const SnapshotSegment*> sorted;
    sorted.reserve(plain_.size() + expandable_.size());
    for (const Ranges* ranges : {&plain_, &expandable_}) {
      for (const auto& [address, segment] : *ranges) sorted.push_back(&segment);
    }
    std::inplace_merge(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(plain_.size()),
                       sorted.end(),
                       [](const auto* a, const auto* b) { return a->address < b->address; });
    return sorted;
  }

 private:
  static bool is_expandable(const TraceEntry& entry) {
    return entry.action == TraceAction::kSegmentMap || entry.action == TraceAction::kSegmentUnmap;
  }
  // Returns the last segment that begins at the address or before; null if there is none.
  static const SnapshotSegment* last_before(const Ranges& ranges, DeviceAddress at) {
    const auto after = ranges.upper_bound(at.value());
    return after == ranges.begin() ? nullptr : &std::prev(after)->second;
  }

  void obtain(const TraceEntry& entry) {
    SnapshotSegment segment;
    segment.device = device_;
    segment.address = entry.address;
    segment.total_bytes = entry.bytes;
    segment.stream = entry.stream;
    segment.is_large = is_large_segment(entry.bytes);
    segment.is_expandable = is_expandable(entry);
    segment.pool = entry.pool;
    add(segment);
  }

  void release(const TraceEntry& entry) {
    if (is_expandable(entry)) {
      remove_range({entry.address, entry.bytes});
    } else {
      plain_.erase(entry.address.value());
      expandable_.erase(entry.address.value());
    }
  }

  // Adds mapped memory of an expandable segment and joins it with adjacent memory of the segment.
  // The size of the added range determines `is_large` only if no range is adjacent.
  void add_range(SnapshotSegment added) {
    remove_range({added.address, added.total_bytes});
    const auto joins = [&](const SnapshotSegment& other) {
      return other.stream == added.stream && other.pool == added.pool;
    };
    auto next = expandable_.find((added.address + added.total_bytes).value());
    if (next != expandable_.end() && joins(next->second)) {
      added.is_large = next->second.is_large;
      added.total_bytes += next->second.total_bytes;
      next = expandable_.erase(next);
    }
    auto after = expandable_.upper_bound(added.address.value());
    if (after != expandable_.begin()) {
      SnapshotSegment& before = std::prev(after)->second;
      if (before.address + before.total_bytes == added.address && joins(before)) {
        before.total_bytes += added.total_bytes;
        return;
      }
    }
    plain_.erase(added.address.value());
    expandable_[added.address.value()] = added;
  }

  // Removes the range from the expandable segments that overlap it.
  void remove_range(const AddressRange& removed) {
    auto next = expandable_.upper_bound(removed.begin.value());
    if (next != expandable_.begin()) --next;
    while (next != expandable_.end() && next->second.address < removed.end()) {
      SnapshotSegment segment = next->second;
      const DeviceAddress end = segment.address + segment.total_bytes;
      if (end <= removed.begin) {
        ++next;
        continue;
      }
      next = expandable_.erase(next);
      if (segment.address < removed.begin) {
        SnapshotSegment front = segment;
        front.total_bytes = removed.begin - segment.address;
        expandable_[front.address.value()] = front;
      }
      if (end > removed.end()) {
        segment.total_bytes = end - removed.end();
        segment.address = removed.end();
        plain_.erase(segment.address.value());
        expandable_[segment.address.value()] = segment;
      }
    }
  }

  const DeviceIndex device_;
  Ranges plain_;       // at most one of the two maps has a segment that begins at a given address
  Ranges expandable_;  // without overlaps
};

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

class LayoutBuilder {
 public:
  LayoutBuilder(const Snapshot& snapshot, DeviceIndex device, const Allocations& allocations,
                const RecordedSizePolicy& sizes)
      : trace_(trace_of(snapshot, device)),
        allocations_(allocations),
        sizes_(sizes),
        segments_(device) {
    for (const SnapshotSegment& segment : snapshot.segments) {
      if (segment.device == device && segment.total_bytes > 0) segments_.add(segment);
    }
    for (auto entry = trace_.rbegin(); entry != trace_.rend(); ++entry) segments_.undo(*entry);
    place_preexisting(final_block_bytes(snapshot, device));
  }

  void advance_to(uint32_t moment) {
    moment_ = moment;
    uint32_t next = 0;
    const auto apply_segments_until = [&](uint64_t end) {
      while (next < end) segments_.apply(trace_[next++]);
    };
    for_each_change(allocations_, [&](uint32_t entry, const Allocation& allocation) {
      if (entry > moment) return;
      apply_segments_until(entry);
      if (allocation.completed_entry == entry) remove(allocation);
      if (allocation.alloc_entry == entry) place(allocations_.by_entry[entry]);
    });
    apply_segments_until(uint64_t{moment} + 1);
  }

  Layout result() const {
    Layout layout;
    auto next = blocks_.begin();
    for (const SnapshotSegment* range : segments_.all()) {
      if (range->total_bytes == 0) continue;
      const uint64_t address = range->address.value();
      const uint64_t end = address + range->total_bytes;
      SnapshotSegment segment = *range;
      segment.blocks.clear();
      segment.allocated_bytes = segment.active_bytes = segment.requested_bytes = 0;
      uint64_t at = address;
      while (next != blocks_.end() && next->first < address) ++next;
      for (; next != blocks_.end() && next->first < end; ++next) {
        add_free_block(segment, at, next->first);
        at = std::min(end, next->first + next->second.bytes);
        add_block(segment, {DeviceAddress(next->first), at - next->first}, next->second.allocation);
        layout.allocations.push_back(next->second.allocation);
      }
      add_free_block(segment, at, end);
      // The blocks determine the size class, because a mapped range of either class can have any
      // size.
      if (segment.is_expandable && segment.active_bytes > 0)
        segment.is_large = has_large_block(segment);
      layout.segments.push_back(std::move(segment));
    }
    return layout;
  }

 private:
  struct Placed {
    size_t bytes = 0;
    uint32_t allocation = 0;  // index into Allocations::all
  };
  using Blocks = std::map<uint64_t, Placed>;

  // Places the allocations that predate the trace, from the highest address to the lowest, because
  // place() needs the following block.
  void place_preexisting(const std::unordered_map<uint64_t, size_t>& final_bytes) {
    const std::vector<uint32_t> before = preexisting_allocations(allocations_);
    for (size_t i = before.size(); i-- > 0;) {
      const Allocation& allocation = allocations_.all[before[i]];
      const auto known = final_bytes.find(allocation.address.value());
      const bool was_never_freed = allocation.free_entry == Allocation::kNoEntry;
      place(before[i], was_never_freed && known != final_bytes.end() ? known->second : 0);
    }
  }

  // Places the block of an allocation in its segment, before the next block. `known_bytes` is its
  // size; 0 if unknown. If the blocks of an inconsistent file overlap, a block ends where the next
  // one begins.
  void place(uint32_t id, size_t known_bytes = 0) {
    const Allocation& allocation = allocations_.all[id];
    const SnapshotSegment* segment = segments_.find(allocation.address);
    if (segment == nullptr || allocation.bytes == 0) return;
    const uint64_t at = allocation.address.value();
    uint64_t end = segment->address.value() + segment->total_bytes;
    const auto next = blocks_.upper_bound(at);
    if (next != blocks_.end()) end = std::min(end, next->first);
    const size_t available = end - at;
    size_t bytes = known_bytes;
    if (bytes == 0) {
      bytes = sizes_.block_bytes(std::min(allocation.bytes, available));
      const size_t remainder = available - std::min(available, bytes);
      if (!sizes_.splits_off(remainder, bytes, *segment)) bytes = available;
    }
    const auto placed = blocks_.insert_or_assign(at, Placed{std::min(bytes, available), id}).first;
    if (placed == blocks_.begin()) return;
    auto& [previous_at, previous] = *std::prev(placed);
    previous.bytes = std::min<size_t>(previous.bytes, at - previous_at);
  }

  void remove(const Allocation& allocation) {
    const auto found = blocks_.find(allocation.address.value());
    const bool is_placed =
        found != blocks_.end() && &allocations_.all[found->second.allocation] == &allocation;
    if (is_placed) blocks_.erase(found);
  }

  static bool has_large_block(const SnapshotSegment& segment) {
    return std::any_of(segment.blocks.begin(), segment.blocks.end(), [](const auto& block) {
      return block.state != SnapshotBlockState::kInactive && !SizePolicy::is_small(block.bytes);
    });
  }

  static void add_free_block(SnapshotSegment& segment, uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    segment.blocks.push_back(
        {DeviceAddress(begin), end - begin, 0, SnapshotBlockState::kInactive, {}});
  }

  void add_block(SnapshotSegment& segment, const AddressRange& range, uint32_t id) const {
    const Allocation& allocation = allocations_.all[id];
    const bool is_pending = moment_ && allocation.free_entry != Allocation::kNoEntry &&
                            allocation.free_entry <= *moment_;
    const size_t requested = std::min(allocation.bytes, range.bytes);
    segment.blocks.push_back(
        {range.begin, range.bytes, requested,
         is_pending ? SnapshotBlockState::kPendingFree : SnapshotBlockState::kAllocated,
         allocation.stack});
    segment.active_bytes += range.bytes;
    segment.allocated_bytes += is_pending ? 0 : range.bytes;
    segment.requested_bytes += requested;
  }

  const std::vector<TraceEntry>& trace_;
  const Allocations& allocations_;
  const RecordedSizePolicy& sizes_;
  std::optional<uint32_t> moment_;
  SegmentRanges segments_;
  Blocks blocks_;  // blocks in use or pending free, keyed by address
};

}  // namespace

size_t Layout::reserved_bytes() const {
  size_t bytes = 0;
  for (const SnapshotSegment& segment : segments) bytes += segment.reserved_bytes();
  return bytes;
}

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

Layout reconstruct_layout(const Snapshot& snapshot, DeviceIndex device,
                          const Allocations& allocations, const RecordedSizePolicy& sizes,
                          std::optional<uint32_t> moment) {
  LayoutBuilder builder(snapshot, device, allocations, sizes);
  if (moment) builder.advance_to(*moment);
  return builder.result();
}

size_t releasable_bytes(const Snapshot& snapshot, DeviceIndex device,
                        const RecordedSizePolicy& sizes) {
  size_t bytes = 0;
  for (const SnapshotSegment& segment : snapshot.segments) {
    const bool is_kept = !segment.pool.is_default() || segment.is_paused;
    if (segment.device != device || is_kept) continue;
    const size_t granule = sizes.granule_bytes(segment.is_large);
    size_t used_count = 0;
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state != SnapshotBlockState::kInactive) ++used_count;
      if (block.state != SnapshotBlockState::kInactive || !segment.is_expandable) continue;
      const size_t begin = round_up(block.address - segment.address, granule);
      const size_t end = block.address - segment.address + block.bytes;
      if (end > begin) bytes += (end - begin) / granule * granule;
    }
    if (!segment.is_expandable && used_count == 0) bytes += segment.total_bytes;
  }
  return bytes;
}

}  // namespace ashlar
