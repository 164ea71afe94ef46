// SPDX-License-Identifier: Apache-2.0
//
// Finds the cache flushes of a recorded run. Under all settings, a replay repeats the explicit
// flushes by the program. Flushes by allocations that ran out of memory are not repeated: the
// replayed engine flushes when it runs out of memory itself. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// A cache flush: the trace entries [begin, end), which free segments.
struct CacheFlush {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool is_explicit = false;  // flushed by the program; false: by an allocation that needed memory
};

struct FlushContext {
  size_t initial_reserved_bytes = 0;           // reserved bytes before the first entry
  size_t limit_bytes = 0;                      // memory limit of the process, as far as known
  const AllocatorOptions* recorded = nullptr;  // options of the recording; must not be null
};

// Returns the flushes in the order of entries; empty for recordings of the paged engine.
std::vector<CacheFlush> find_cache_flushes(const std::vector<TraceEntry>& trace,
                                           const FlushContext& context);

}  // namespace ashlar
