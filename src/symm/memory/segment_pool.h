// SPDX-License-Identifier: Apache-2.0
//
// A pool of symmetric memory: buffers carved from segments, which are blocks of an arena and serve
// nothing else. What it decides follows from the order of calls alone, so that ranks which make the
// same calls have every buffer in the same segment at the same offset; every call is noted, and a
// rendezvous compares the notes. Growing is such a decision, too: no rank asks another.
//
// A segment is mapped into other ranks once, for all of its buffers. Thread safe, but ranks whose
// threads call in different orders do different things.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "symm/core/timed_mutex.h"
#include "symm/memory/pool_call_log.h"
#include "symm/memory/rank_heap.h"
#include "symm/memory/segment_buffers.h"
#include "symm/memory/segment_free_list.h"

namespace ashlar::symm {

class SegmentPool {
 public:
  struct Options {
    std::string name = "pool";
    size_t segment_bytes = size_t{64} << 20;  // at least so many at a time
  };
  // used_bytes + free_bytes == segment_bytes, all rounded up.
  struct Stats {
    size_t segment_count = 0;
    size_t segment_bytes = 0;
    size_t used_bytes = 0;
    size_t buffer_count = 0;
    PoolCallLog::State calls{};  // how many there were, and their hash
  };

  // `arena` outlives it.
  SegmentPool(RankHeap& heap, Options options);
  // Memory that other ranks have mapped stays, and so do handles.
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  // Aligned to 128 B; 0 bytes count as one. kOutOfMemory: no hole is large enough, and the arena
  // has no memory for another segment; this is noted, too.
  Result<std::byte*> allocate(size_t bytes) ASHLAR_EXCLUDES(mutex_);
  // From now on it may be part of other buffers, whoever has a handle. kInvalidArgument: not the
  // beginning of a buffer of this pool.
  Status free(const void* pointer) ASHLAR_EXCLUDES(mutex_);
  // Gives segments back that no buffer is in.
  void trim() ASHLAR_EXCLUDES(mutex_);

  Stats stats() ASHLAR_EXCLUDES(mutex_);

 private:
  struct Segment {
    std::byte* buffer = nullptr;
    size_t bytes = 0;
    std::shared_ptr<SegmentBuffers> segment_buffers{};  // also owned by the block
  };

  Status grow(size_t bytes) ASHLAR_REQUIRES(mutex_);
  void free_segment(uint64_t number) ASHLAR_REQUIRES(mutex_);

  RankHeap& heap_;
  const Options options_;
  const std::shared_ptr<PoolCallLog> log_ =
      std::make_shared<PoolCallLog>();  // also owned by segments

  TimedMutex mutex_;  // a turn, since growing waits for a device
  SegmentFreeList free_list_ ASHLAR_GUARDED_BY(mutex_);
  std::map<uint64_t, Segment> segments_ ASHLAR_GUARDED_BY(mutex_);  // by number
  uint64_t next_segment_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t next_ordinal_ ASHLAR_GUARDED_BY(mutex_) = 0;
  size_t buffer_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::symm
