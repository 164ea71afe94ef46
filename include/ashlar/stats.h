// SPDX-License-Identifier: Apache-2.0
//
// Statistics of an allocator, as a consistent copy. `AllocatorStats::flatten` uses PyTorch's names
// ("allocated_bytes.all.peak"); docs/reference/statistics.md explains them.
//
// Errors: none.
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

class Engine;

// A gauge with its peak and totals. Without resets, current == increased - decreased.
struct Stat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t increased = 0;  // sum of all increases since the last reset
  int64_t decreased = 0;  // sum of all decreases since the last reset

  void increase(int64_t by) {
    current += by;
    increased += by;
    if (current > peak) peak = current;
  }
  void decrease(int64_t by) {
    current -= by;
    decreased += by;
  }
  void reset_peak() { peak = current; }
  void reset_totals() { increased = decreased = 0; }
};

// A gauge in total, and separately for the memory of small blocks (up to 1 MiB) and of large
// blocks. "Small pool" and "large pool" are PyTorch's terms.
struct StatTriple {
  Stat all;
  Stat small_pool;
  Stat large_pool;

  Stat& of(bool is_small) { return is_small ? small_pool : large_pool; }
  void increase(bool is_small, int64_t by) {
    all.increase(by);
    of(is_small).increase(by);
  }
  void decrease(bool is_small, int64_t by) {
    all.decrease(by);
    of(is_small).decrease(by);
  }
  void reset_peak() {
    for (Stat* stat : {&all, &small_pool, &large_pool}) stat->reset_peak();
  }
  void reset_totals() {
    for (Stat* stat : {&all, &small_pool, &large_pool}) stat->reset_totals();
  }
};

// The memory of one stream or one pool.
struct UsageStats {
  Stat allocation;       // allocated blocks
  Stat allocated_bytes;  // sizes of allocated blocks
  Stat active_bytes;     // sizes of blocks that are allocated or pending free
  Stat requested_bytes;  // requested sizes of active blocks
  StatTriple reserved_bytes;
};

struct AllocatorStats {
  StatTriple allocation;       // allocated blocks
  StatTriple allocated_bytes;  // sizes of allocated blocks
  StatTriple active;           // blocks that are allocated or pending free
  StatTriple active_bytes;
  StatTriple requested_bytes;  // requested sizes of active blocks
  StatTriple segment;          // segments obtained with Device::allocate
  StatTriple reserved_bytes;   // all memory obtained from the device
  // Free parts of partly used segments or extents: cached memory that cannot be returned to the
  // device.
  StatTriple inactive_split;
  StatTriple inactive_split_bytes;
  Stat oversize_allocations;  // allocated blocks of max_split_bytes or more
  Stat oversize_segments;
  int64_t alloc_retries = 0;           // cache flushes before a retry of an allocation
  int64_t ooms = 0;                    // out-of-memory errors reported to the caller
  int64_t oom_rejections = 0;          // requests that the limit rejected; not counted in `ooms`
  int64_t sync_all_streams = 0;        // times the host waited for pending frees
  int64_t device_allocs = 0;           // calls that obtained memory from the device
  int64_t device_frees = 0;            // calls that returned memory to the device
  int64_t stitches = 0;                // blocks composed of extents mapped from other views
  int64_t max_split_bytes = -1;        // the option of this name; -1: unlimited
  std::map<PoolId, UsageStats> pools;  // live pools; {0, 0} is the default pool
  std::map<StreamId, UsageStats> streams;  // every stream that memory was allocated on

  ASHLAR_EXPORT void reset_peaks();
  ASHLAR_EXPORT void reset_totals();
  // Returns all values in a fixed order, under PyTorch's names. Values that PyTorch lacks have
  // names of the same form, such as "pool.0_1.allocated_bytes.current" and
  // "stream.7.allocated_bytes.current".
  ASHLAR_EXPORT std::vector<std::pair<std::string, int64_t>> flatten() const;
};

// An expandable segment: a reserved address range, of which a part is mapped.
struct ExpandableSegmentStats {
  StreamId stream{};
  bool is_small = false;    // holds blocks of up to 1 MiB
  AddressRange reserved{};  // the segment's address range
  size_t mapped_bytes = 0;  // bytes of the range that have memory
};

// Resets the statistics of one allocator, and returns statistics that Allocator::stats does not
// include: `allocator.statistics()`. Thread safe.
class ASHLAR_EXPORT AllocatorStatistics {
 public:
  AllocatorStatistics(const AllocatorStatistics&) = delete;
  AllocatorStatistics& operator=(const AllocatorStatistics&) = delete;

  // Sets every peak to the current value.
  void reset_peaks();
  // Sets every total and counter to 0.
  void reset_totals();
  // Returns the size of the largest contiguous range of cached memory, or 0 if nothing is cached. A
  // request of this size, on the stream and from the pool of that range, needs no device call.
  size_t largest_cached_bytes() const;
  std::vector<ExpandableSegmentStats> expandable_segments() const;

 private:
  friend class Allocator;
  explicit AllocatorStatistics(Engine& engine) : engine_(engine) {}

  Engine& engine_;
};

}  // namespace ashlar
