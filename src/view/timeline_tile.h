// SPDX-License-Identifier: Apache-2.0
//
// Tiles of the timeline: up to kTileColumns columns at a given resolution. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "view/document.h"

namespace ashlar::view {

inline constexpr uint32_t kTileColumns = 512;
// The highest level of detail. Each level divides the minimum size of the allocations in a tile by
// four.
inline constexpr uint32_t kMaxDetail = 4;
// Maximum number of allocations in a tile. If there are more, only the largest are included.
inline constexpr size_t kMaxTileAllocations = 40'000;

struct TileId {
  uint32_t level = 0;
  uint32_t index = 0;
};

// Returns the number of levels. Level 0 has one tile; in the last level, a column represents one
// entry.
uint32_t level_count(uint32_t entry_count);
// Returns the number of tiles in a level.
// REQUIRES: level < level_count(entry_count).
uint32_t tile_count(uint32_t entry_count, uint32_t level);

// Returns the allocations of a tile, in the binary format of columns.h.
// REQUIRES: the tile exists, and detail <= kMaxDetail.
std::string tile_by_allocation(const Document& document, TileId tile, uint32_t detail);
// Returns the bytes of each group in each column of a tile, in the binary format of columns.h.
// REQUIRES: the tile exists.
std::string tile_by_group(const Document& document, TileId tile, Grouping grouping);

// Returns the moments that the columns of a tile represent, ascending.
std::vector<uint32_t> tile_moments(const Document& document, TileId tile);

// Returns the minimum size of the allocations that are shown individually.
uint64_t min_shown_bytes(const Document& document, uint32_t detail);

}  // namespace ashlar::view
