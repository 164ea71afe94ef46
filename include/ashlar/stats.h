// SPDX-License-Identifier: Apache-2.0
//
// What an allocator has done, in numbers: values, copied out at one moment. flatten() gives them
// under the names PyTorch uses ("allocated_bytes.all.peak"), which docs/guide/statistics.md
// explains.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

// One quantity that rises and falls:  current == risen - fallen  since the beginning.
struct Stat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t risen = 0;   // sum of all increases since the last reset
  int64_t fallen = 0;  // sum of all decreases since the last reset

  void rise(int64_t by) {
    current += by;
    risen += by;
    if (current > peak) peak = current;
  }
  void fall(int64_t by) {
    current -= by;
    fallen += by;
  }
  void reset_peak() { peak = current; }
  void reset_totals() { risen = fallen = 0; }
};

// A quantity for all blocks together, and for the small and the large ones alone.
struct StatTriple {
  Stat all;
  Stat small_pool;
  Stat large_pool;

  Stat& of(bool is_small) { return is_small ? small_pool : large_pool; }
  void rise(bool is_small, int64_t by) {
    all.rise(by);
    of(is_small).rise(by);
  }
  void fall(bool is_small, int64_t by) {
    all.fall(by);
    of(is_small).fall(by);
  }
  void reset_peak() {
    for (Stat* stat : {&all, &small_pool, &large_pool}) stat->reset_peak();
  }
  void reset_totals() {
    for (Stat* stat : {&all, &small_pool, &large_pool}) stat->reset_totals();
  }
};

// What one stream, or one pool, has of an allocator's memory.
struct UsageStats {
  Stat allocation;       // blocks handed out
  Stat allocated_bytes;  // their sizes
  Stat active_bytes;     // of blocks handed out or pending
  Stat requested_bytes;  // what was asked for, of the active ones
  StatTriple reserved_bytes;
};

struct AllocatorStats {
  StatTriple allocation;       // blocks handed out
  StatTriple allocated_bytes;  // their sizes
  StatTriple active;           // blocks handed out or pending
  StatTriple active_bytes;
  StatTriple requested_bytes;  // what was asked for, of the active ones
  StatTriple segment;          // plain segments held from the device
  StatTriple reserved_bytes;   // all memory held from the device
  // Free parts of plain segments, or of a paged engine's extents, that are in use otherwise: cached
  // memory that the device cannot have back.
  StatTriple inactive_split;
  StatTriple inactive_split_bytes;
  Stat oversize_allocations;  // above max_split_bytes
  Stat oversize_segments;
  int64_t alloc_retries = 0;           // allocations that needed the cache flushed
  int64_t ooms = 0;                    // failures reported to the caller
  int64_t oom_rejections = 0;          // refused without asking the device
  int64_t sync_all_streams = 0;        // times the host waited for all pending frees
  int64_t device_allocs = 0;           // calls that got memory from the device
  int64_t device_frees = 0;            // calls that gave it back
  int64_t stitches = 0;                // blocks that free memory of other places was mapped for
  int64_t max_split_bytes = -1;        // the option; -1: unlimited
  std::map<PoolId, UsageStats> pools;  // {0, 0} is the default one; a pool that is gone is not here
  std::map<StreamId, UsageStats> streams;  // every stream that memory was allocated on

  ASHLAR_EXPORT void reset_peaks();
  ASHLAR_EXPORT void reset_totals();
  // PyTorch's names and values, in a fixed order; then "pool.0_1.allocated_bytes.current" and
  // "stream.7.allocated_bytes.current", which are ours.
  ASHLAR_EXPORT std::vector<std::pair<std::string, int64_t>> flatten() const;
};

}  // namespace ashlar
