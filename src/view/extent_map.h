// SPDX-License-Identifier: Apache-2.0
//
// The physical memory behind the addresses of a map: which extent is where at a moment, and where
// else it is mapped. For recordings of engines that have extents; of others there are none. Pure
// functions.
//
// At the last moment it is as the snapshot has it. Before that it is as the trace tells: a mapping
// of the snapshot was there from the time it was made on, and the extent was at home where memory
// was mapped for the program. Memory that was free is where it was used last. What was gone before
// the snapshot was taken is not known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "view/address_map.h"
#include "view/columns.h"

namespace ashlar::view {

struct MapExtent {
  const SnapshotExtent* told = nullptr;  // by the snapshot
  std::optional<DeviceAddress> home{};   // none: it is idle
  std::vector<DeviceAddress> places{};   // where it is mapped, ascending
};

// A part of a segment of the map that an extent is mapped at, or the part of that which the segment
// has.
struct Stretch {
  uint64_t offset = 0;  // within the segment
  uint64_t bytes = 0;
  uint32_t extent = kNever;  // position in ExtentMap::extents; none: several, merged
  bool is_home = false;      // its memory is in use here, or could be; else it is away
};

struct ExtentMap {
  std::vector<MapExtent> extents{};             // by id
  std::vector<std::vector<Stretch>> stretches;  // by segment; in order, none overlap
};

// REQUIRES: segments as find_map finds them at that moment.
ExtentMap find_extents(const Document& document, uint32_t moment,
                       const std::vector<MapSegment>& segments);

// As merge_small_blocks: neighbours that are too small to be seen become one if they touch, and if
// both are at home or both away.
void merge_small_stretches(ExtentMap& map, size_t most_stretches);

// As columns of the same answer.
void add_extents(const Document& document, const ExtentMap& map, Columns& answer);

}  // namespace ashlar::view
