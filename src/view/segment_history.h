// SPDX-License-Identifier: Apache-2.0
//
// The segments that there were at any moment of a device's trace: those of the end with every act
// undone, and then one act after the other. Of engines with extents the trace tells where memory
// was used last, and the snapshot where it is: that is what the last moment has. Constant once
// built, and so thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ashlar/snapshot.h"
#include "view/lives.h"

namespace ashlar::view {

// A segment, or a part of one whose memory comes and goes that was mapped for a time.
struct SegmentPiece {
  AddressRange range{};
  StreamId stream{};
  PoolId pool{};
  bool comes_and_goes = false;
  uint32_t owner = kNever;  // the same number: parts of one segment or view; of a plain one, none
};

class SegmentHistory {
 public:
  SegmentHistory() = default;
  SegmentHistory(const Snapshot& snapshot, DeviceIndex device,
                 const std::vector<TraceEntry>& trace);

  // By address.
  std::vector<SegmentPiece> at(uint32_t moment) const;
  const std::vector<SegmentPiece>& all() const { return pieces_; }

 private:
  std::vector<SegmentPiece> pieces_{};  // as numbered by lives_
  Lives lives_{};
};

}  // namespace ashlar::view
