// SPDX-License-Identifier: Apache-2.0
//
// Assembles segments from mapped pieces, places the allocations in them, and fills the gaps.
#include "view/address_map.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "engine/size_policy.h"
#include "view/columns.h"
#include "view/extent_map.h"

namespace ashlar::view {
namespace {

constexpr size_t kMaxBlocks = 20'000;
constexpr size_t kMaxMappedRanges = 20'000;
constexpr uint8_t kNoCategory = UINT8_MAX;  // of blocks without an allocation
// Blocks without a segment share a segment if they are at most this far apart.
constexpr uint64_t kNearBytes = kSmallSegmentBytes;

// A segment under construction.
struct SegmentDraft {
  MapSegment segment{};
  std::vector<AddressRange> mapped{};  // sorted by address; not adjacent
};

std::vector<SegmentDraft> make_drafts(const std::vector<SegmentPiece>& pieces) {
  std::vector<SegmentDraft> drafts;
  std::map<uint32_t, size_t> draft_indexes;  // keyed by SegmentPiece::owner
  for (const SegmentPiece& piece : pieces) {
    const auto [known, is_new] = draft_indexes.try_emplace(piece.owner, drafts.size());
    if (piece.owner == kNoIndex || is_new) {
      if (piece.owner == kNoIndex) draft_indexes.erase(known);
      drafts.push_back({.segment = {.range = piece.range,
                                    .stream = piece.stream,
                                    .pool = piece.pool,
                                    .is_expandable = piece.is_expandable},
                        .mapped = {piece.range}});
      continue;
    }
    SegmentDraft& draft = drafts[known->second];
    draft.segment.range.bytes = piece.range.end() - draft.segment.range.begin;
    const bool is_adjacent = draft.mapped.back().end() == piece.range.begin;
    if (!is_adjacent) draft.mapped.push_back({piece.range.begin, 0});
    draft.mapped.back().bytes += piece.range.bytes;
  }
  return drafts;
}

// An allocation and the address range of its block, whose size may be inferred.
struct PlacedBlock {
  uint32_t id = 0;
  AddressRange range{};
};

// Returns the sizes of the blocks that are live in the snapshot, keyed by address.
std::unordered_map<uint64_t, size_t> final_block_bytes(const Document& document) {
  std::unordered_map<uint64_t, size_t> bytes;
  for (const SnapshotSegment& segment : document.recording().snapshot().segments) {
    if (segment.device != document.device()) continue;
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state != SnapshotBlockState::kInactive && block.bytes > 0) {
        bytes[block.address.value()] = block.bytes;
      }
    }
  }
  return bytes;
}

// Returns the allocations at a moment, sorted by address, without overlaps.
std::vector<PlacedBlock> placed_blocks(const Document& document, uint32_t moment) {
  const std::unordered_map<uint64_t, size_t> at_end = final_block_bytes(document);
  std::vector<PlacedBlock> placed;
  for (const uint32_t rank : document.intervals().at(moment)) {
    const Allocation& allocation = document.allocation(rank);
    if (allocation.bytes == 0) continue;
    uint64_t bytes = document.block_bytes(allocation.bytes);
    if (allocation.free_entry == Allocation::kNoEntry) {
      const auto known = at_end.find(allocation.address.value());
      if (known != at_end.end()) bytes = known->second;
    }
    bytes = std::min(bytes, UINT64_MAX - allocation.address.value());
    placed.push_back({document.ids()[rank], {allocation.address, bytes}});
  }
  // An incomplete trace may have several allocations at one address. Keeps the first allocation
  // with an alloc entry or, if none has one, the first allocation: the omitted allocations must
  // have been made later, without an entry.
  const auto key = [&](const PlacedBlock& each) {
    const Allocation& allocation = document.allocations().all[each.id];
    return std::tuple(each.range.begin, allocation.predates_trace(), each.id);
  };
  std::sort(placed.begin(), placed.end(),
            [&](const PlacedBlock& a, const PlacedBlock& b) { return key(a) < key(b); });
  const auto same = [](const PlacedBlock& a, const PlacedBlock& b) {
    return a.range.begin == b.range.begin;
  };
  placed.erase(std::unique(placed.begin(), placed.end(), same), placed.end());
  for (size_t i = 0; i + 1 < placed.size(); ++i) {
    const uint64_t available_bytes = placed[i + 1].range.begin - placed[i].range.begin;
    placed[i].range.bytes = std::min(placed[i].range.bytes, available_bytes);
  }
  return placed;
}

// Fills one segment with blocks.
class SegmentFiller {
 public:
  SegmentFiller(const Document& document, SegmentDraft draft, uint32_t moment)
      : document_(document), draft_(std::move(draft)), moment_(moment) {
    at_ = draft_.segment.range.begin;
  }

  void add(const PlacedBlock& placed) {
    fill_up_to(placed.range.begin);
    const Allocation& allocation = document_.allocations().all[placed.id];
    const bool is_pending = allocation.free_entry <= moment_;
    const uint64_t available_bytes = draft_.segment.range.end() - placed.range.begin;
    const uint64_t bytes = std::min(placed.range.bytes, available_bytes);
    put({.bytes = bytes,
         .state = is_pending ? BlockState::kPending : BlockState::kLive,
         .requested_bytes = std::min<uint64_t>(allocation.bytes, bytes),
         .allocation = placed.id});
  }

  MapSegment finish() {
    fill_up_to(draft_.segment.range.end());
    return std::move(draft_.segment);
  }

 private:
  // Fills the gap up to `end`. A gap that is too small to have been split off is added to the block
  // of the allocation before it.
  void fill_up_to(DeviceAddress end) {
    const uint64_t gap = end - at_;
    std::vector<MapBlock>& blocks = draft_.segment.blocks;
    const bool is_large = draft_.segment.range.bytes != kSmallSegmentBytes;
    const bool can_keep = !draft_.segment.is_expandable && !blocks.empty() &&
                          blocks.back().allocation != kNoIndex &&
                          gap <= (is_large ? kSmallLimitBytes : kMinBlockBytes - 1);
    if (can_keep) {
      blocks.back().bytes += gap;
      at_ = end;
    }
    while (at_ < end) put_free(end);
  }

  void put_free(DeviceAddress end) {
    while (next_mapped_ < draft_.mapped.size() && draft_.mapped[next_mapped_].end() <= at_) {
      ++next_mapped_;
    }
    const bool has_next = next_mapped_ < draft_.mapped.size();
    const bool is_mapped = has_next && draft_.mapped[next_mapped_].begin <= at_;
    DeviceAddress until = end;
    if (is_mapped) until = std::min(end, draft_.mapped[next_mapped_].end());
    if (!is_mapped && has_next) until = std::min(end, draft_.mapped[next_mapped_].begin);
    put({.bytes = until - at_, .state = is_mapped ? BlockState::kFree : BlockState::kNotMapped});
  }

  void put(MapBlock block) {
    block.offset = at_ - draft_.segment.range.begin;
    at_ = at_ + block.bytes;
    draft_.segment.blocks.push_back(block);
  }

  const Document& document_;
  SegmentDraft draft_;
  uint32_t moment_;
  DeviceAddress at_;
  size_t next_mapped_ = 0;
};

// Makes a segment for allocations that are in no recorded segment, starting with placed[first].
SegmentDraft draft_for(const Document& document, const std::vector<PlacedBlock>& placed,
                       size_t first, DeviceAddress limit) {
  const Allocation& allocation = document.allocations().all[placed[first].id];
  DeviceAddress end = placed[first].range.end();
  for (size_t i = first + 1; i < placed.size() && placed[i].range.begin < limit; ++i) {
    if (placed[i].range.begin - end > kNearBytes) break;
    end = placed[i].range.end();
  }
  const AddressRange range{placed[first].range.begin,
                           std::min(end, limit) - placed[first].range.begin};
  return {.segment = {.range = range, .stream = allocation.stream, .pool = allocation.pool},
          .mapped = {range}};
}

size_t count_blocks(const std::vector<MapSegment>& segments) {
  size_t count = 0;
  for (const MapSegment& segment : segments) count += segment.blocks.size();
  return count;
}

void merge_below(uint64_t min_bytes, std::vector<MapBlock>& blocks) {
  std::vector<MapBlock> merged;
  for (const MapBlock& block : blocks) {
    const bool joins =
        !merged.empty() && block.bytes < min_bytes && merged.back().bytes < min_bytes;
    if (!joins) {
      merged.push_back(block);
      continue;
    }
    MapBlock& last = merged.back();
    last.bytes += block.bytes;
    last.requested_bytes += block.requested_bytes;
    last.state = BlockState::kMerged;
    last.allocation = kNoIndex;
  }
  blocks = std::move(merged);
}

}  // namespace

std::vector<MapSegment> build_map(const Document& document, uint32_t moment) {
  const std::vector<PlacedBlock> placed = placed_blocks(document, moment);
  std::vector<SegmentDraft> drafts = make_drafts(document.segments().at(moment));
  std::vector<MapSegment> segments;
  size_t next = 0;
  const auto fill = [&](SegmentDraft draft) {
    const AddressRange range = draft.segment.range;
    SegmentFiller filler(document, std::move(draft), moment);
    for (; next < placed.size() && range.contains(placed[next].range.begin); ++next) {
      filler.add(placed[next]);
    }
    segments.push_back(filler.finish());
  };
  const auto add_unowned_before = [&](DeviceAddress limit) {
    while (next < placed.size() && placed[next].range.begin < limit) {
      fill(draft_for(document, placed, next, limit));
    }
  };
  DeviceAddress end{};
  for (SegmentDraft& draft : drafts) {
    // Expandable segments may overlap in inconsistent files; the first segment is kept.
    if (draft.segment.range.begin < end) continue;
    add_unowned_before(draft.segment.range.begin);
    end = draft.segment.range.end();
    fill(std::move(draft));
  }
  add_unowned_before(DeviceAddress(UINT64_MAX));
  return segments;
}

void merge_small_blocks(std::vector<MapSegment>& segments, size_t max_blocks) {
  uint64_t total_bytes = 0;
  for (const MapSegment& segment : segments) total_bytes += segment.range.bytes;
  merge_until(
      std::max(max_blocks, segments.size()), total_bytes, [&] { return count_blocks(segments); },
      [&](uint64_t min_bytes) {
        for (MapSegment& segment : segments) merge_below(min_bytes, segment.blocks);
      });
}

namespace {

// Returns the allocation in a block; null if the block has none.
const Allocation* allocation_in(const Document& document, const MapBlock& block) {
  return block.allocation == kNoIndex ? nullptr : &document.allocations().all[block.allocation];
}

void add_segments(const Document& document, const std::vector<MapSegment>& segments,
                  Columns& response) {
  using Segment = const MapSegment&;
  response.add("segment_address", segments, [](Segment each) { return each.range.begin.value(); });
  response.add("segment_bytes", segments,
               [](Segment each) { return static_cast<double>(each.range.bytes); });
  response.add("segment_stream", segments,
               [&](Segment each) { return document.stream_of(each.stream); });
  response.add("segment_pool", segments, [&](Segment each) { return document.pool_of(each.pool); });
  const bool has_views = document.recording().options().engine == EngineKind::kPaged;
  response.add("segment_kind", segments, [&](Segment each) -> uint8_t {
    if (!each.is_expandable) return 0;
    return has_views ? 2 : 1;
  });
}

void add_blocks(const Document& document, const std::vector<MapBlock>& blocks, Columns& response) {
  using Block = const MapBlock&;
  response.add("block_offset", blocks, [](Block each) { return static_cast<double>(each.offset); });
  response.add("block_bytes", blocks, [](Block each) { return static_cast<double>(each.bytes); });
  response.add("block_state", blocks, [](Block each) { return static_cast<uint8_t>(each.state); });
  response.add("block_requested", blocks,
               [](Block each) { return static_cast<double>(each.requested_bytes); });
  response.add("block_allocation", blocks, [](Block each) { return each.allocation; });
  response.add("block_stack", blocks, [&](Block each) {
    const Allocation* allocation = allocation_in(document, each);
    return allocation == nullptr ? kNoIndex : document.stack_of(*allocation);
  });
  response.add("block_category", blocks, [&](Block each) {
    return each.allocation == kNoIndex ? kNoCategory : document.category_of(each.allocation);
  });
  response.add("block_made", blocks, [&](Block each) {
    const Allocation* allocation = allocation_in(document, each);
    return allocation == nullptr ? Allocation::kNoEntry : allocation->alloc_entry;
  });
}

}  // namespace

std::string map_columns(const Document& document, uint32_t moment) {
  std::vector<MapSegment> segments = build_map(document, moment);
  ExtentMap extents = find_extents(document, moment, segments);
  merge_small_blocks(segments, kMaxBlocks);
  merge_small_mapped_ranges(extents, kMaxMappedRanges);
  std::vector<uint32_t> first_blocks;
  std::vector<MapBlock> blocks;
  for (const MapSegment& segment : segments) {
    first_blocks.push_back(static_cast<uint32_t>(blocks.size()));
    blocks.insert(blocks.end(), segment.blocks.begin(), segment.blocks.end());
  }
  first_blocks.push_back(static_cast<uint32_t>(blocks.size()));
  Columns response;
  add_segments(document, segments, response);
  response.add("segment_first", first_blocks);
  add_blocks(document, blocks, response);
  add_extents(document, extents, response);
  return response.take();
}

}  // namespace ashlar::view
