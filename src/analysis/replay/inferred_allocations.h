// SPDX-License-Identifier: Apache-2.0
//
// Infers allocations that a trace does not contain, which the driver, other libraries or host
// mappings made in the recorded process. The driver's placement rule predicts the address of each
// recorded segment. If a segment has another address, other memory occupied the predicted address,
// or other memory at the actual address had been freed. The smallest event that explains the
// address is assumed. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "ashlar/trace.h"
#include "device/sim/driver_addresses.h"

namespace ashlar {

struct InferredEvent {
  enum class Kind {
    kAllocated,   // part of a chunk was allocated
    kFoundSpace,  // an existing chunk had free space
    kGapOpened,   // addresses became available for new chunks
    kGapClosed,   // addresses became unavailable for new chunks
  };
  uint32_t entry = 0;  // the event happened before this trace entry
  Kind kind = Kind::kAllocated;
  sim::DriverAddresses::Range range;
  size_t bytes = 0;  // kFoundSpace: size of the segment that was placed there
};

struct InferredAllocations {
  // The end of the address range that the driver fills with chunks from the top down: the end of
  // the first new chunk. If no segment begins a new chunk, this is an address at or below the
  // lowest segment; if the trace has no segments, the value is arbitrary.
  uint64_t end = uint64_t{1} << 47;
  std::vector<InferredEvent> events;
};

InferredAllocations infer_allocations(const std::vector<TraceEntry>& trace);

}  // namespace ashlar
