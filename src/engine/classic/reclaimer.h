// SPDX-License-Identifier: Apache-2.0
//
// Returns cached memory of a classic engine to the device: whole plain segments, and free granules
// of expandable segments. Selects them by pool, by age, or by size. Segments of custom sources go
// to the ReturnQueue, which the engine flushes without holding its lock. Guarded by the engine's
// lock.
#pragma once

#include <vector>

#include "engine/classic/expandable_segments.h"
#include "engine/classic/pool_table.h"
#include "engine/pending_frees.h"
#include "engine/trim_selection.h"

namespace ashlar::classic {

class Reclaimer {
 public:
  // The objects that this class uses. They outlive it.
  struct Dependencies {
    Device& device;
    const AllocatorOptions& options;
    const SizePolicy& sizes;
    const MemoryLimit& limit;
    PoolTable& pools;
    BlockHeap& heap;
    ExpandableSegments& expandables;
    PendingFrees& pending;
    ReturnQueue& returns;
    StatsRecorder& stats;
    Tracer& tracer;
  };
  explicit Reclaimer(const Dependencies& deps) : deps_(deps) {}

  // Releases the segment that consists of one free block. Returns false if the segment stays
  // cached, because its stream cannot be waited for now or because the device failed; a device
  // error is deferred. REQUIRES: the segment is plain; with TrimWait::kNever, its stream is idle.
  bool release_segment(ClassicBlock* block, TrimWait wait = TrimWait::kForWork);
  // Releases the free segments of a pool, and the free granules of its expandable segments.
  void release_free_blocks(FreePool& pool);
  // Releases one oversize block that is large enough for the request, or else the largest oversize
  // blocks until their sizes add up to the request, because such blocks serve few requests. Does
  // nothing if no block size counts as oversize. Returns whether it released enough.
  bool release_oversize(const AllocParams& params);
  // Garbage collection: releases the default pool's unused large segments that are at least as old
  // as the average, repeatedly, until reserved memory is at most the threshold's fraction of the
  // memory limit or no segment is released. Does nothing unless both the limit and the threshold
  // are set.
  void release_by_age();
  // Releases memory until at most `target.reserved_bytes` are reserved, or as much as possible, and
  // returns the number of bytes released.
  size_t release_to(const TrimTarget& target);

  // Keeps an error that could not be returned, for the next allocate or trim to report. Keeps the
  // first error, because later ones may be its consequences.
  void defer_error(const Status& error) {
    if (deferred_error_.ok()) deferred_error_ = error;
  }
  Status take_deferred_error() { return std::exchange(deferred_error_, {}); }

 private:
  // Free memory that could be returned to the device: a plain segment, or granules of a block in an
  // expandable segment.
  struct Candidate {
    ClassicBlock* block = nullptr;
    size_t bytes = 0;
  };
  std::vector<Candidate> trim_candidates(TrimWait wait);
  void remove_busy(std::vector<ClassicBlock*>& blocks) const;
  size_t release(const Candidate& candidate, TrimWait wait);
  size_t unmap_inside(ClassicBlock* block, AddressRange range, TrimWait wait);
  // Waits for the stream of a block that is about to be released, so that no queued work still
  // uses the block. Does nothing with TrimWait::kNever.
  Status wait_for_stream(StreamId stream, TrimWait wait) const;
  bool release_segments_by_average_age(size_t& released_bytes);

  const Dependencies deps_;
  Status deferred_error_;
};

}  // namespace ashlar::classic
