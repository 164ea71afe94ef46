// SPDX-License-Identifier: Apache-2.0
//
// What lies where at a moment: segments and their blocks. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "view/document.h"

namespace ashlar::view {

enum class BlockState : uint8_t { kFree, kLive, kPending, kNotMapped, kMerged };

struct MapBlock {
  uint64_t offset = 0;  // within the segment
  uint64_t bytes = 0;
  BlockState state = BlockState::kFree;
  uint64_t requested_bytes = 0;
  uint32_t allocation = kNever;  // its id
};

// Blocks in order, which tile it:  sum(block.bytes) == range.bytes.
struct MapSegment {
  AddressRange range{};
  StreamId stream{};
  PoolId pool{};
  bool comes_and_goes = false;
  std::vector<MapBlock> blocks{};
};

// By address. What lies in no segment that the recording tells of gets one of its own.
std::vector<MapSegment> find_map(const Document& document, uint32_t moment);

// Neighbours that are too small to be seen become one, until there are no more than `most_blocks`,
// or nothing is left to merge.
void merge_small_blocks(std::vector<MapSegment>& segments, size_t most_blocks);

// As columns, of a bounded number of blocks, with the extents behind them (extent_map.h). REQUIRES:
// a moment of the document.
std::string map_at(const Document& document, uint32_t moment);

}  // namespace ashlar::view
