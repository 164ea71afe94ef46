// SPDX-License-Identifier: Apache-2.0
//
// Explains the gap between reserved and requested bytes at one moment. Every reserved byte is
// counted once, so the causes add up to the gap exactly. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "ashlar/snapshot.h"

namespace ashlar {

// The properties of a request that determine which free memory can serve it.
struct RequestClass {
  StreamId stream{};
  bool is_large = false;
  PoolId pool{};
};

// Returns the class of the segments with the most bytes in total.
RequestClass dominant_request_class(const std::vector<SnapshotSegment>& segments);
// Returns whether the segment has the pool, the stream and the size class (small or large) of the
// request. Ignores how much of the segment is free.
bool can_serve(const SnapshotSegment& segment, const RequestClass& request);

struct GapCauses {
  size_t requested_bytes = 0;  // requested sizes of blocks in use or pending free
  size_t rounding_bytes = 0;   // block sizes minus requested sizes of these blocks
  // Free memory, counted under the first of these reasons that applies:
  size_t other_pool_bytes = 0;    // memory in another pool
  size_t other_stream_bytes = 0;  // memory of another stream
  size_t other_size_pool_bytes =
      0;                        // memory for small blocks if the request is large, or vice versa
  size_t fragmented_bytes = 0;  // memory in segments that also have blocks in use or pending free
  size_t unused_bytes = 0;      // memory in segments without blocks in use or pending free

  size_t gap_bytes() const {
    return rounding_bytes + other_pool_bytes + other_stream_bytes + other_size_pool_bytes +
           fragmented_bytes + unused_bytes;
  }
  size_t reserved_bytes() const { return requested_bytes + gap_bytes(); }
};

// Explains the gap. Free memory is classified relative to the pool, stream and size class of
// `request`.
GapCauses explain_gap(const std::vector<SnapshotSegment>& segments, const RequestClass& request);

}  // namespace ashlar
