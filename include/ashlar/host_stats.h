// SPDX-License-Identifier: Apache-2.0
//
// What an allocator of pinned host memory has done, in numbers: values, copied out at one moment.
// flatten() gives them under the names PyTorch uses ("active_bytes.peak").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/export.h"
#include "ashlar/stats.h"

namespace ashlar {

// How long calls of one kind took. The extremes are those since the last reset of peaks, the rest
// counts since the last reset of totals.
struct DurationStat {
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t max_ns = 0;
  int64_t min_ns = 0;
  bool has_extremes = false;  // false: max_ns and min_ns mean nothing yet

  void note(int64_t duration_ns) {
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

// How many blocks of one size class were obtained from the host since the last reset of totals.
struct SizeClassCount {
  size_t class_bytes = 0;  // the largest block of the class
  int64_t count = 0;
};

// A block is active from its allocation until it can be used again:
//   active == handed out + pending + in graphs,  allocations == active + cached.
struct HostStats {
  Stat active_requests;
  Stat active_bytes;     // their blocks
  Stat requested_bytes;  // what was asked for, of the active ones
  Stat allocations;      // all blocks: active ones and cached ones
  Stat allocated_bytes;
  Stat pending_blocks;  // freed, but streams may still be using them
  Stat pending_bytes;
  Stat graph_blocks;  // freed, but kept for a graph that may use them
  Stat graph_bytes;

  DurationStat host_alloc_time;
  DurationStat host_free_time;
  int64_t host_allocs = 0;    // pieces of memory obtained from the host
  int64_t host_frees = 0;     // and given back to it
  int64_t alloc_retries = 0;  // allocations that needed the cache flushed
  int64_t ooms = 0;           // failures for want of memory, reported to the caller
  int64_t late_errors = 0;    // failures where nobody waited for an answer; the next call has them
  size_t reserve_bytes = 0;   // the segment taken at the start
  size_t reserve_used_bytes = 0;             // how much of it was made into blocks; never falls
  std::vector<SizeClassCount> size_classes;  // those that have counted any, by size

  ASHLAR_EXPORT void reset_peaks();
  ASHLAR_EXPORT void reset_totals();
  // PyTorch's names and values, in a fixed order; times in microseconds. What PyTorch does not
  // count follows under names of the same manner.
  ASHLAR_EXPORT std::vector<std::pair<std::string, int64_t>> flatten() const;
};

}  // namespace ashlar
