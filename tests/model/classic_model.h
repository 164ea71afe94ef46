// SPDX-License-Identifier: Apache-2.0
//
// The classic policy written as naively as possible: a flat list of segments, each a list of
// blocks, with linear search. The device and the model get the same addresses for new segments in
// advance, so the model predicts the address of every block.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/stats.h"
#include "ashlar/trace.h"

namespace ashlar::model {

enum class BlockState { kFree, kAllocated, kPending, kUnmapped };

// A range of a segment: a free, allocated or pending block, or an unmapped range.
struct ModelBlock {
  uint64_t address = 0;
  size_t bytes = 0;
  BlockState state = BlockState::kFree;
  size_t requested_bytes = 0;
  uint64_t search_count_when_freed = 0;  // searches of its free list before the block was freed
};

// Identifies a list of free blocks.
struct FreeListKey {
  PoolId pool;
  bool is_small = false;
  friend auto operator<=>(const FreeListKey&, const FreeListKey&) = default;
};

struct Segment {
  FreeListKey list;
  StreamId stream;
  bool expandable = false;
  std::vector<ModelBlock> blocks;
};

struct DeviceOperation {
  TraceAction action = TraceAction::kAlloc;
  uint64_t address = 0;
  size_t bytes = 0;
  friend bool operator==(const DeviceOperation&, const DeviceOperation&) = default;
};

struct ModelPool {
  bool use_on_oom = false;
  bool no_split = false;
  bool has_source = false;
  bool freeable = false;
  std::optional<StreamId> routed_stream{};
};

class ClassicModel {
 public:
  ClassicModel(const AllocatorOptions& options, size_t capacity_bytes)
      : options_(options), capacity_bytes_(capacity_bytes), fraction_(options.memory_fraction) {}

  // Adds an address for a future segment. Addresses are used in order.
  void add_segment_address(uint64_t address) { segment_addresses_.push_back(address); }
  size_t unused_address_count() const { return segment_addresses_.size(); }

  // Returns the address of the block; nullopt if out of memory.
  std::optional<uint64_t> allocate(size_t bytes, StreamId stream);
  // Returns whether the request may make the engine wait for streams, because garbage collection
  // releases old segments, or because the request needs new memory for which the device or the
  // limit may be too small.
  bool may_wait_for_streams(size_t bytes, StreamId stream) const;
  // Frees a block. `state` is kFree, or kPending if the block stays active until complete().
  void free(uint64_t address, BlockState state);
  void complete(uint64_t address);
  void trim();
  void set_fraction(double fraction) { fraction_ = fraction; }
  // Sets the capturing streams; empty if no capture is in progress.
  void set_capturing(std::vector<StreamId> streams) { capturing_ = std::move(streams); }

  std::map<PoolId, ModelPool>& pools() { return pools_; }
  // Returns the device operations since the last call.
  std::vector<DeviceOperation> take_operations() { return std::exchange(operations_, {}); }
  // Returns the statistics that follow from the list of segments.
  AllocatorStats sums() const;
  int64_t ooms() const { return ooms_; }
  int64_t retries() const { return retries_; }

 private:
  struct BlockRef {
    size_t segment = 0;
    size_t block = 0;
  };
  struct FitRequest {
    size_t requested_bytes = 0;
    size_t bytes = 0;
    size_t segment_bytes = 0;
    StreamId stream;
    FreeListKey list;
    bool expandable = false;  // expandable segments are active for this request
  };

  FitRequest make_request(size_t bytes, StreamId stream) const;
  size_t rounded(size_t bytes) const;
  bool is_above_limit(size_t more_bytes) const;
  std::vector<BlockRef> free_blocks_in_order(const FreeListKey& list,
                                             std::optional<StreamId> stream) const;
  std::optional<BlockRef> best_fit(const FitRequest& wanted, const FreeListKey& list,
                                   bool expandable) const;
  std::optional<BlockRef> search(const FitRequest& wanted);
  std::optional<BlockRef> grow(const FitRequest& wanted);
  std::optional<BlockRef> grow_plain(const FitRequest& wanted);
  std::optional<BlockRef> grow_expandable(const FitRequest& wanted);
  BlockRef find_unmapped_range(const FitRequest& wanted);
  bool map(BlockRef& at, size_t bytes);
  std::optional<BlockRef> reclaim_and_retry(FitRequest& wanted);
  uint64_t allocate_at(BlockRef at, const FitRequest& wanted);
  BlockRef free_and_merge(BlockRef at);
  uint64_t take_segment_address();
  bool release_oversize(const FitRequest& wanted);
  void collect_by_age();
  void release_all();
  void release_list(const FreeListKey& list);
  void release_segment(uint64_t address);
  void unmap(uint64_t address);
  BlockRef find(uint64_t address) const;
  ModelBlock& block(BlockRef at) { return segments_[at.segment].blocks[at.block]; }
  const ModelBlock& block(BlockRef at) const { return segments_[at.segment].blocks[at.block]; }
  size_t granule(bool is_small) const;
  bool is_capturing(StreamId stream) const {
    return std::find(capturing_.begin(), capturing_.end(), stream) != capturing_.end();
  }
  void record(TraceAction action, uint64_t address, size_t bytes) {
    operations_.push_back({action, address, bytes});
  }

  const AllocatorOptions options_;
  const size_t capacity_bytes_;
  double fraction_;
  size_t reserved_bytes_ = 0;
  std::deque<uint64_t> segment_addresses_;
  std::vector<Segment> segments_;
  std::vector<StreamId> capturing_;
  std::map<PoolId, ModelPool> pools_;
  std::map<FreeListKey, uint64_t> search_counts_;
  std::vector<DeviceOperation> operations_;
  int64_t ooms_ = 0;
  int64_t retries_ = 0;
};

}  // namespace ashlar::model
