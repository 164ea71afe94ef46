// SPDX-License-Identifier: Apache-2.0
//
// The physical memory behind the addresses of a map: the extents at a moment, with all addresses at
// which they are mapped. The map is empty for recordings of engines without extents. Pure
// functions.
//
// An extent's home is the mapping at which its memory is handed out. At the last moment, mappings
// and homes are those of the snapshot. At earlier moments they follow from the trace: a mapping of
// the snapshot exists since its creation time, and the home is the mapping whose addresses are
// mapped according to the trace, in which free memory stays where it was used last. Extents and
// mappings that were removed before the snapshot are unknown.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "view/address_map.h"
#include "view/columns.h"

namespace ashlar::view {

struct MapExtent {
  const SnapshotExtent* recorded = nullptr;  // the extent in the snapshot
  std::optional<DeviceAddress> home{};       // unset: idle or unknown
  std::vector<DeviceAddress> addresses{};    // addresses of its mappings, ascending
};

// A part of a segment at which an extent is mapped. A mapping across several segments has one such
// part in each of them.
struct MappedRange {
  uint64_t offset = 0;  // distance from the start of the segment
  uint64_t bytes = 0;
  uint32_t extent = kNoIndex;  // index into ExtentMap::extents; kNoIndex: several, merged
  bool is_home = false;        // the memory is handed out here
};

struct ExtentMap {
  std::vector<MapExtent> extents{};  // sorted by id
  // The mapped ranges of each segment, in address order, without overlaps.
  std::vector<std::vector<MappedRange>> mapped_ranges;
};

// Finds the extents that exist at the moment. REQUIRES: `segments` is the result of build_map() for
// this moment.
ExtentMap find_extents(const Document& document, uint32_t moment,
                       const std::vector<MapSegment>& segments);

// Merges small mapped ranges like merge_small_blocks(), but only if they are adjacent and have
// equal is_home.
void merge_small_mapped_ranges(ExtentMap& map, size_t max_mapped_ranges);

// Adds the columns of the extents, their mappings and the mapped ranges to `response`.
void add_extents(const Document& document, const ExtentMap& map, Columns& response);

// Merging of elements of a map that are too small to be visible.

inline constexpr size_t kMaxScreenWidthPixels = 8'000;  // 8K screens have 7,680

// Calls merge(min_bytes), which merges adjacent elements that are smaller than `min_bytes`, until
// count() is at most `max_count` or `min_bytes` reaches `total_bytes`. `min_bytes` starts at the
// size of one pixel and doubles with each call.
template <typename Count, typename MergeBelow>
void merge_until(size_t max_count, uint64_t total_bytes, const Count& count,
                 const MergeBelow& merge) {
  uint64_t min_bytes = total_bytes / kMaxScreenWidthPixels;
  while (count() > max_count) {
    merge(min_bytes);
    if (min_bytes >= total_bytes) return;
    min_bytes = min_bytes > total_bytes / 2 ? total_bytes : std::max<uint64_t>(2 * min_bytes, 1);
  }
}

}  // namespace ashlar::view
