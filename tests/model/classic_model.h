// SPDX-License-Identifier: Apache-2.0
//
// The classic policy written as naively as possible: a flat list of segments, each a list of parts,
// with linear search. The addresses of new segments are fixed in advance for the device and the
// model, so that every address is predicted.
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

enum class State { kFree, kAllocated, kPending, kUnmapped };

struct Part {
  uint64_t address = 0;
  size_t bytes = 0;
  State state = State::kFree;
  size_t requested_bytes = 0;
  uint64_t since = 0;  // searches of its list when it became free
};

// Identifies a list of free blocks.
struct List {
  PoolId pool;
  bool is_small = false;
  friend auto operator<=>(const List&, const List&) = default;
};

struct Segment {
  List list;
  StreamId stream;
  bool expandable = false;
  std::vector<Part> parts;
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
  bool freeable = false;
  std::optional<StreamId> routed{};
};

class ClassicModel {
 public:
  ClassicModel(const AllocatorOptions& options, size_t capacity_bytes)
      : options_(options), capacity_bytes_(capacity_bytes), fraction_(options.memory_fraction) {}

  // Sets the address of the next new segment.
  void place_next(uint64_t address) { segment_addresses_.push_back(address); }
  size_t place_count() const { return segment_addresses_.size(); }

  // Empty if out of memory.
  std::optional<uint64_t> allocate(size_t bytes, StreamId stream);
  // Whether the request would make the engine wait for streams: it needs the device and finds it or
  // the limit full, or garbage collection releases old segments.
  bool would_climb_ladder(size_t bytes, StreamId stream) const;
  // Frees a block; `state` says whether it is pending until complete().
  void free(uint64_t address, State state);
  void complete(uint64_t address);
  void trim();
  void set_fraction(double fraction) { fraction_ = fraction; }
  // Empty if no capture is in progress.
  void set_capturing(std::vector<StreamId> streams) { capturing_ = std::move(streams); }

  std::map<PoolId, ModelPool>& pools() { return pools_; }
  // Device operations since the last call.
  std::vector<DeviceOperation> take_operations() { return std::exchange(operations_, {}); }
  // The quantities that follow from the list of segments.
  AllocatorStats sums() const;
  int64_t ooms() const { return ooms_; }
  int64_t retries() const { return retries_; }

 private:
  struct BlockRef {
    size_t segment = 0;
    size_t part = 0;
  };
  struct FitRequest {
    size_t requested_bytes = 0;
    size_t bytes = 0;
    size_t segment_bytes = 0;
    StreamId stream;
    List list;
  };

  FitRequest wanted_for(size_t bytes, StreamId stream) const;
  size_t rounded(size_t bytes) const;
  bool is_above_limit(size_t more_bytes) const;
  std::vector<BlockRef> free_blocks_in_order(const List& list,
                                             std::optional<StreamId> stream) const;
  std::optional<BlockRef> best_fit(const FitRequest& wanted, const List& list,
                                   bool expandable) const;
  std::optional<BlockRef> search(const FitRequest& wanted);
  std::optional<BlockRef> grow(const FitRequest& wanted);
  std::optional<BlockRef> grow_plain(const FitRequest& wanted);
  std::optional<BlockRef> grow_expandable(const FitRequest& wanted);
  BlockRef find_room(const FitRequest& wanted);
  bool map(BlockRef& at, size_t bytes);
  std::optional<BlockRef> climb_reclaim_ladder(const FitRequest& wanted);
  uint64_t hand_out(BlockRef at, const FitRequest& wanted);
  BlockRef make_free(BlockRef at);
  uint64_t take_place();
  bool release_oversize(const FitRequest& wanted);
  void collect_by_age();
  void release_all();
  void release_list(const List& list);
  void release_segment(uint64_t address);
  void unmap(uint64_t address);
  BlockRef find(uint64_t address) const;
  Part& part(BlockRef at) { return segments_[at.segment].parts[at.part]; }
  const Part& part(BlockRef at) const { return segments_[at.segment].parts[at.part]; }
  size_t granule(bool is_small) const;
  bool is_capturing(StreamId stream) const {
    return std::find(capturing_.begin(), capturing_.end(), stream) != capturing_.end();
  }
  void act(TraceAction action, uint64_t address, size_t bytes) {
    operations_.push_back({action, address, bytes});
  }

  const AllocatorOptions options_;
  const size_t capacity_bytes_;
  double fraction_;
  size_t held_bytes_ = 0;
  std::deque<uint64_t> segment_addresses_;
  std::vector<Segment> segments_;
  std::vector<StreamId> capturing_;
  std::map<PoolId, ModelPool> pools_;
  std::map<List, uint64_t> searches_;
  std::vector<DeviceOperation> operations_;
  int64_t ooms_ = 0;
  int64_t retries_ = 0;
};

}  // namespace ashlar::model
