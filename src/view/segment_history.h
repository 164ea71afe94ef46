// SPDX-License-Identifier: Apache-2.0
//
// The segments at every moment of a device's trace, reconstructed from the final segments and the
// segment events. For engines with extents, the trace has the addresses at which memory was last
// used, and the snapshot has its final addresses, which apply to the last moment. Immutable and
// therefore thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ashlar/snapshot.h"
#include "view/interval_index.h"

namespace ashlar::view {

// A plain (not expandable) segment, or a part of an expandable segment that was mapped for some
// time.
struct SegmentPiece {
  AddressRange range{};
  StreamId stream{};
  PoolId pool{};
  bool is_expandable = false;
  uint32_t owner = kNoIndex;  // equal for parts of one segment or view; kNoIndex for plain segments
};

class SegmentHistory {
 public:
  SegmentHistory() = default;
  SegmentHistory(const Snapshot& snapshot, DeviceIndex device,
                 const std::vector<TraceEntry>& trace);

  // Returns the pieces that exist at a moment, sorted by address.
  std::vector<SegmentPiece> at(uint32_t moment) const;
  const std::vector<SegmentPiece>& all() const { return pieces_; }

 private:
  std::vector<SegmentPiece> pieces_{};  // indexed like intervals_
  IntervalIndex intervals_{};
};

}  // namespace ashlar::view
