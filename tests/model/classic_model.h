// SPDX-License-Identifier: Apache-2.0
//
// The classic policy once more, written as naively as possible: a flat list of segments, each a
// list of parts, and linear search for everything. Where new segments lie is decided beforehand,
// for the simulated device as for the model, so that every address is predicted.
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
  uint64_t since = 0;  // the searches in its list when it became free
};

// Names a list of free blocks.
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

struct Act {
  TraceAction action = TraceAction::kAlloc;
  uint64_t address = 0;
  size_t bytes = 0;
  friend bool operator==(const Act&, const Act&) = default;
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

  // The next segment that has none yet lies there.
  void place_next(uint64_t address) { places_.push_back(address); }
  size_t place_count() const { return places_.size(); }

  // Empty: out of memory.
  std::optional<uint64_t> allocate(size_t bytes, StreamId stream);
  // Whether the request would have the engine wait for streams: it would need the device and find
  // it or the limit full, or old segments would be given back on the way.
  bool would_climb(size_t bytes, StreamId stream) const;
  // Freed by the caller; free at once, or pending until complete().
  void free(uint64_t address, State state);
  void complete(uint64_t address);
  void trim();
  void set_fraction(double fraction) { fraction_ = fraction; }
  // Empty: no capture goes on.
  void set_capturing(std::vector<StreamId> streams) { capturing_ = std::move(streams); }

  std::map<PoolId, ModelPool>& pools() { return pools_; }
  // What concerned the device since it was last taken.
  std::vector<Act> take_acts() { return std::exchange(acts_, {}); }
  // The quantities that follow from the list of segments.
  AllocatorStats sums() const;
  int64_t ooms() const { return ooms_; }
  int64_t retries() const { return retries_; }

 private:
  struct Place {
    size_t segment = 0;
    size_t part = 0;
  };
  struct Wanted {
    size_t requested_bytes = 0;
    size_t bytes = 0;
    size_t segment_bytes = 0;
    StreamId stream;
    List list;
  };

  Wanted wanted_for(size_t bytes, StreamId stream) const;
  size_t rounded(size_t bytes) const;
  bool is_above_limit(size_t more_bytes) const;
  std::vector<Place> free_places(const List& list, std::optional<StreamId> stream) const;
  std::optional<Place> best_fit(const Wanted& wanted, const List& list, bool expandable) const;
  std::optional<Place> search(const Wanted& wanted);
  std::optional<Place> grow(const Wanted& wanted);
  std::optional<Place> grow_plain(const Wanted& wanted);
  std::optional<Place> grow_expandable(const Wanted& wanted);
  Place find_room(const Wanted& wanted);
  bool map(Place& at, size_t bytes);
  std::optional<Place> climb(const Wanted& wanted);
  uint64_t hand_out(Place at, const Wanted& wanted);
  Place make_free(Place at);
  uint64_t take_place();
  bool release_oversize(const Wanted& wanted);
  void collect_by_age();
  void release_all();
  void release_list(const List& list);
  void release_segment(uint64_t address);
  void unmap(uint64_t address);
  Place find(uint64_t address) const;
  Part& part(Place at) { return segments_[at.segment].parts[at.part]; }
  const Part& part(Place at) const { return segments_[at.segment].parts[at.part]; }
  size_t granule(bool is_small) const;
  bool is_capturing(StreamId stream) const {
    return std::find(capturing_.begin(), capturing_.end(), stream) != capturing_.end();
  }
  void act(TraceAction action, uint64_t address, size_t bytes) {
    acts_.push_back({action, address, bytes});
  }

  const AllocatorOptions options_;
  const size_t capacity_bytes_;
  double fraction_;
  size_t held_bytes_ = 0;
  std::deque<uint64_t> places_;
  std::vector<Segment> segments_;
  std::vector<StreamId> capturing_;
  std::map<PoolId, ModelPool> pools_;
  std::map<List, uint64_t> searches_;
  std::vector<Act> acts_;
  int64_t ooms_ = 0;
  int64_t retries_ = 0;
};

}  // namespace ashlar::model
