// SPDX-License-Identifier: Apache-2.0
//
// What a trace does not show but its addresses betray: memory that the driver, other libraries and
// the host's own mappings took or gave back in the recorded process. The driver's rule says where
// each recorded segment should have gone; where it went elsewhere, something unseen was in the way,
// or had made room. The least that explains the address is assumed. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "ashlar/trace.h"
#include "device/sim/driver_addresses.h"

namespace ashlar {

struct UnseenAct {
  enum class Kind {
    kTook,       // a part of a chunk
    kRevealed,   // room in a chunk that the process had before
    kOpenedGap,  // addresses became free for new chunks
    kClosedGap,  // addresses were not free for new chunks any more
  };
  uint32_t entry = 0;  // of the trace: it was so before this one
  Kind kind = Kind::kTook;
  sim::DriverAddresses::Range at;
  size_t bytes = 0;  // kRevealed: of the segment that went there
};

struct Unseen {
  uint64_t end =
      uint64_t{1} << 47;  // the first new chunk lies below it; somewhere if there are none
  std::vector<UnseenAct> acts;
};

Unseen find_unseen(const std::vector<TraceEntry>& trace);

}  // namespace ashlar
