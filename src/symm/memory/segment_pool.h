// SPDX-License-Identifier: Apache-2.0
//
// A pool of symmetric memory: sub-allocates buffers from segments, which are heap blocks that the
// pool owns. Placement depends only on the sequence of calls, so ranks that make the same calls get
// every buffer in the same segment at the same offset, without communication. Allocations, frees
// and trims are logged, and a rendezvous compares the logs.
//
// The other ranks map a segment once, for all of its buffers. Thread safe, but all ranks must make
// the same calls in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "symm/memory/pool_call_log.h"
#include "symm/memory/rank_heap.h"
#include "symm/memory/segment_buffers.h"
#include "symm/memory/segment_free_list.h"

namespace ashlar::symm {

class SegmentPool {
 public:
  struct Options {
    std::string name = "pool";
    size_t segment_bytes = size_t{64} << 20;  // minimum size of a segment
  };
  // Invariant: used_bytes <= segment_bytes. Both include the rounding of each size to 128 bytes.
  struct Stats {
    size_t segment_count = 0;
    size_t segment_bytes = 0;
    size_t used_bytes = 0;
    size_t buffer_count = 0;
    PoolCallLog::State calls{};  // number of calls and their hash
  };

  // REQUIRES: `heap` outlives this object.
  SegmentPool(RankHeap& heap, Options options);
  // Frees all segments. Memory that other ranks or handles have mapped stays mapped.
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  // Allocates a buffer, aligned to 128 bytes. A buffer of 0 bytes has an address of its own. If no
  // free range is large enough and the heap cannot allocate another segment, logs the failure and
  // returns the heap's error. Returns kOutOfMemory, without logging, if `bytes` exceeds
  // kMaxBlockBytes.
  Result<std::byte*> allocate(size_t bytes) ASHLAR_EXCLUDES(mutex_);
  // Frees a buffer. The memory may be reused immediately, even if handles to it exist. Returns
  // kInvalidArgument if `pointer` is not the beginning of a buffer of this pool.
  Status free(const void* pointer) ASHLAR_EXCLUDES(mutex_);
  // Frees the segments that contain no buffer.
  void trim() ASHLAR_EXCLUDES(mutex_);

  Stats stats() ASHLAR_EXCLUDES(mutex_);

 private:
  struct Segment {
    std::byte* buffer = nullptr;
    size_t bytes = 0;
    std::shared_ptr<SegmentBuffers> segment_buffers{};  // also owned by the heap block
  };

  // Adds a segment of at least `bytes`.
  Status grow_locked(size_t bytes) ASHLAR_REQUIRES(mutex_);
  void free_segment_locked(uint64_t number) ASHLAR_REQUIRES(mutex_);

  RankHeap& heap_;
  const Options options_;
  const std::shared_ptr<PoolCallLog> log_ =
      std::make_shared<PoolCallLog>();  // also owned by segments

  Mutex mutex_;  // held while the pool grows, which may wait for a device
  SegmentFreeList free_list_ ASHLAR_GUARDED_BY(mutex_);
  std::map<uint64_t, Segment> segments_ ASHLAR_GUARDED_BY(mutex_);  // keyed by number
  uint64_t next_segment_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t next_ordinal_ ASHLAR_GUARDED_BY(mutex_) = 0;
  size_t buffer_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::symm
