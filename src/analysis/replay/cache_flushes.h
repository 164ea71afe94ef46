// SPDX-License-Identifier: Apache-2.0
//
// Where a recorded run gave its cache back: stretches of freed segments, and why. A program that
// empties the cache does so under any settings; an allocation that ran out of memory does so by
// itself if it runs out again. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// Entries [begin, end) of the trace give segments back.
struct Flush {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool asked_for = false;  // by the program; false: by an allocation that needed the room
};

struct FlushQuestion {
  size_t start_reserved_bytes = 0;  // held before the trace began
  size_t limit_bytes = 0;           // how much the process could have, as far as is known
  const AllocatorOptions* recorded = nullptr;  // the options in force
};

std::vector<Flush> find_flushes(const std::vector<TraceEntry>& trace,
                                const FlushQuestion& question);

}  // namespace ashlar
