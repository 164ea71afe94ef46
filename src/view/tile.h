// SPDX-License-Identifier: Apache-2.0
//
// A tile of the timeline: some hundred columns of it, at one resolution. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "view/document.h"

namespace ashlar::view {

inline constexpr uint32_t kTileColumns = 512;
inline constexpr uint32_t kMostDetail = 4;
// Of allocations that a tile mentions. Where there are more, the greatest are shown.
inline constexpr size_t kMostTileRows = 40'000;

struct TilePlace {
  uint32_t level = 0;
  uint32_t index = 0;
};

// How many levels there are: the first is one tile, in the last a column is an entry.
uint32_t level_count(uint32_t entry_count);
// How many tiles there are in a level. REQUIRES: level < level_count(entry_count).
uint32_t tile_count(uint32_t entry_count, uint32_t level);

// As columns. REQUIRES: there is a tile at that place, and detail <= kMostDetail.
std::string tile_by_allocation(const Document& document, TilePlace place, uint32_t detail);
std::string tile_by_group(const Document& document, TilePlace place, Grouping grouping);

// The moments that the columns of a tile stand for, ascending.
std::vector<uint32_t> tile_moments(const Document& document, TilePlace place);

// The least bytes for which an allocation is shown by itself.
uint64_t least_shown_bytes(const Document& document, uint32_t detail);

}  // namespace ashlar::view
