// SPDX-License-Identifier: Apache-2.0
//
// The classic engine's statistics: updates the counters of the engine, the pool and the stream when
// a block or a segment changes state. Guarded by the engine's lock.
#pragma once

#include "ashlar/stats.h"
#include "engine/classic/classic_block.h"
#include "engine/oom_report.h"
#include "engine/size_policy.h"

namespace ashlar::classic {

class StatsRecorder {
 public:
  // `sizes` outlives the recorder.
  StatsRecorder(const SizePolicy& sizes, const AllocatorOptions& options);

  // Returns the counters, so that the caller can count events that concern no block.
  AllocatorStats& stats() { return stats_; }
  const AllocatorStats& stats() const { return stats_; }
  // Returns the size of all plain segments and of the mapped memory of expandable segments.
  size_t reserved_bytes() const { return static_cast<size_t>(stats_.reserved_bytes.all.current); }
  // Returns how many of the reserved bytes belong to the default pool.
  size_t default_pool_bytes() const {
    return static_cast<size_t>(stats_.pools.at(PoolId{}).reserved_bytes.all.current);
  }

  OomUsage oom_usage() const;

  // The next two functions create the entry if it does not exist. The reference to a pool's entry
  // stays valid until erase_pool is called for the pool.
  UsageStats& find_or_add_pool_usage(PoolId pool) { return stats_.pools[pool]; }
  UsageStats& find_or_add_stream_usage(StreamId stream) { return stats_.streams[stream]; }
  void erase_pool(PoolId pool) { stats_.pools.erase(pool); }

  void record_allocated(const ClassicBlock& block);
  void record_free_requested(const ClassicBlock& block);
  void record_free_completed(const ClassicBlock& block);
  // Counts `bytes` of a plain or expandable segment that were obtained from the device.
  void record_reserved(const ClassicBlock& block, size_t bytes);
  // Counts `bytes` of a plain or expandable segment that were returned to the device.
  void record_released(const ClassicBlock& block, size_t bytes);
  // Adds the changes, which may be negative, to the number and the total size of the free blocks in
  // split plain segments.
  void record_inactive_split(bool is_small, int64_t count_change, int64_t bytes_change);

 private:
  const SizePolicy& sizes_;
  AllocatorStats stats_;
};

}  // namespace ashlar::classic
