// SPDX-License-Identifier: Apache-2.0
//
// The blocks of a classic engine and their life cycle: free, allocated, pending, free again, with
// splitting and merging, statistics and trace entries. Neither obtains device memory nor waits
// for the device. Guarded by the engine's lock.
//
// Invariants:
//   the blocks of a segment, in address order, tile it;
//   no two neighbours are both free or both unmapped;
//   every free or unmapped block is in the index of its pool.
#pragma once

#include "engine/block_table.h"
#include "engine/classic/free_pool.h"
#include "engine/classic/stats_recorder.h"
#include "engine/classic/tracing.h"
#include "engine/engine.h"
#include "engine/size_policy.h"

namespace ashlar::classic {

// A request, with the pool and sizes that the engine has chosen for it.
struct AllocParams {
  AllocationRequest request;
  size_t block_bytes = 0;
  size_t segment_bytes = 0;
  FreePool* pool = nullptr;
  // Expandable segments may serve the request. If set, blocks of plain segments are also split by
  // the rule for expandable segments.
  bool expandable = false;
  bool rejected = false;  // by the limit, because reject_before_device_oom is set
};

class BlockHeap {
 public:
  // The objects that the heap uses. They outlive it.
  struct Dependencies {
    const SizePolicy& sizes;
    StatsRecorder& stats;
    Tracer& tracer;
    BlockTable& addresses;
  };
  explicit BlockHeap(const Dependencies& deps) : deps_(deps) {}

  // Functions that create blocks cannot fail. REQUIRES: the caller has a reservation.

  // Reserves memory for `count` blocks.
  BlockStore::Reservation reserve(size_t count) { return {blocks_, count}; }
  // Reserves the memory that `create` needs for a segment of the stream.
  BlockStore::Reservation reserve_segment(StreamId stream) {
    deps_.stats.find_or_add_stream_usage(stream);  // adds the stream's counters
    return reserve(1);
  }
  // Creates the only block of a new segment. The block is free and in no index.
  ClassicBlock* create(const AllocParams& params, AddressRange range);
  // Creates a block in the segment of `like`, between two neighbours, each of which may be null.
  // The block is in no index.
  ClassicBlock* create_neighbour(const ClassicBlock& like, AddressRange range,
                                 ClassicBlock* previous, ClassicBlock* next);
  void destroy(ClassicBlock* block) { blocks_.destroy(block); }

  enum class SplitRule {
    kPolicy,  // split as the options specify
    kExact,   // split at params.block_bytes
  };
  // Hands out the front of a free block. The remainder, if the rule splits it off, returns to the
  // pool. REQUIRES: `block` is free and in no index.
  ClassicBlock* allocate(ClassicBlock* block, const AllocParams& params,
                         SplitRule rule = SplitRule::kPolicy);
  // Changes the block's state from allocated to pending.
  void request_free(ClassicBlock* block);
  // Changes the block's state from pending to free, merges it with its free neighbours, and adds it
  // to its pool.
  void complete_free(ClassicBlock* block);
  // Calls request_free and complete_free. REQUIRES: no other stream uses the block.
  void free(ClassicBlock* block) {
    request_free(block);
    complete_free(block);
  }
  // Merges `neighbour` into `into` and returns the neighbour's size. Returns 0 without effect if
  // `neighbour` is null or its state differs from that of `into`. REQUIRES: `into` is free or
  // unmapped, and in no index.
  size_t merge(ClassicBlock* into, ClassicBlock* neighbour);

  // Visits every block, in no particular order.
  template <typename Visit>
  void for_each(const Visit& visit) {
    blocks_.for_each(visit);
  }
  template <typename Visit>
  void for_each(const Visit& visit) const {
    blocks_.for_each(visit);
  }
  // Returns the first block of each segment of a pool, in address order.
  std::vector<ClassicBlock*> first_blocks(const PrivatePool& pool);

 private:
  bool should_split(const ClassicBlock& block, const AllocParams& params) const;
  ClassicBlock* split_front(ClassicBlock* rest, size_t bytes);

  const Dependencies deps_;
  BlockStore blocks_;
};

}  // namespace ashlar::classic
