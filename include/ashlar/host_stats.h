// SPDX-License-Identifier: Apache-2.0
//
// Statistics of an allocator of pinned host memory, as a consistent copy. `HostStats::flatten` uses
// PyTorch's names ("active_bytes.peak").
//
// Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/export.h"
#include "ashlar/stats.h"

namespace ashlar {

// Durations of one kind of call. max_ns and min_ns cover the calls since the last reset of peaks;
// count and total_ns cover the calls since the last reset of totals.
struct DurationStat {
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t max_ns = 0;
  int64_t min_ns = 0;
  bool has_extremes = false;  // whether max_ns and min_ns are valid

  void record(int64_t duration_ns) {
    ++count;
    total_ns += duration_ns;
    if (!has_extremes || duration_ns > max_ns) max_ns = duration_ns;
    if (!has_extremes || duration_ns < min_ns) min_ns = duration_ns;
    has_extremes = true;
  }
  void reset_peak() {
    max_ns = min_ns = 0;
    has_extremes = false;
  }
  void reset_totals() { count = total_ns = 0; }
};

// The number of blocks of one size class that were created since the last reset of totals. As in
// PyTorch, blocks that were released since then still count.
struct SizeClassCount {
  size_t class_bytes = 0;  // size of the largest block of the class
  int64_t count = 0;
};

// A block is active from its allocation until it can be reused. After that it is cached:
//   active == not yet freed + pending + in graphs,  allocations == active + cached.
struct HostStats {
  Stat active_requests;  // active blocks
  Stat active_bytes;     // sizes of active blocks
  Stat requested_bytes;  // requested sizes of active blocks
  Stat allocations;      // all blocks, active or cached
  Stat allocated_bytes;
  Stat pending_blocks;  // freed, but a stream may still use them
  Stat pending_bytes;
  Stat graph_blocks;  // freed, but kept for a captured graph
  Stat graph_bytes;

  DurationStat host_alloc_time;
  DurationStat host_free_time;
  int64_t host_allocs = 0;        // calls that obtained memory from the host
  int64_t host_frees = 0;         // calls that returned memory to the host
  int64_t alloc_retries = 0;      // allocations that had to flush the cache first
  int64_t ooms = 0;               // out-of-memory errors reported to the caller
  int64_t deferred_errors = 0;    // device errors during frees and background work
  size_t reserve_bytes = 0;       // size of the reserve segment
  size_t reserve_used_bytes = 0;  // part of the reserve segment that was split; never decreases
  std::vector<SizeClassCount> size_classes;  // classes with a count above 0, sorted by size

  ASHLAR_EXPORT void reset_peaks();
  ASHLAR_EXPORT void reset_totals();
  // Returns all values in a fixed order, under PyTorch's names. Values that PyTorch lacks have
  // names of the same form. Times are in microseconds.
  ASHLAR_EXPORT std::vector<std::pair<std::string, int64_t>> flatten() const;
};

}  // namespace ashlar
