// SPDX-License-Identifier: Apache-2.0
//
// The address map: segments and blocks at a moment of the trace. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "view/document.h"

namespace ashlar::view {

enum class BlockState : uint8_t {
  kFree,
  kLive,
  kPending,    // freed, but another stream may still use it
  kNotMapped,  // addresses without memory
  kMerged,     // several small blocks that are drawn as one
};

struct MapBlock {
  uint64_t offset = 0;  // distance from the start of the segment
  uint64_t bytes = 0;
  BlockState state = BlockState::kFree;
  uint64_t requested_bytes = 0;
  uint32_t allocation = kNoIndex;  // id of the allocation in the block
};

// A segment and its blocks, which cover it in order and without gaps: sum(block.bytes) ==
// range.bytes.
struct MapSegment {
  AddressRange range{};
  StreamId stream{};
  PoolId pool{};
  bool is_expandable = false;
  std::vector<MapBlock> blocks{};
};

// Returns the segments at a moment, sorted by address. Allocations outside of all recorded segments
// are placed in additional segments.
std::vector<MapSegment> build_map(const Document& document, uint32_t moment);

// Merges adjacent small blocks until at most `max_blocks` remain, or nothing can be merged.
void merge_small_blocks(std::vector<MapSegment>& segments, size_t max_blocks);

// Returns the map as columns (docs/reference/formats/view.md), including extents (extent_map.h),
// with small blocks merged.
// REQUIRES: moment < document.entry_count().
std::string map_columns(const Document& document, uint32_t moment);

}  // namespace ashlar::view
