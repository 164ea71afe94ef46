// SPDX-License-Identifier: Apache-2.0
//
// One device's part of a recording, indexed for the viewer's requests: the allocations that exist
// at each moment, oldest first, and sums of bytes over time. A moment is the state after a trace
// entry. Immutable and therefore thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/recording.h"
#include "analysis/training/categories.h"
#include "view/group_ranking.h"
#include "view/interval_index.h"
#include "view/segment_history.h"
#include "view/time_series.h"

namespace ashlar::view {

enum class Grouping { kStack, kStream, kPool, kCategory };

// Allocations have two numbers. The id, used in responses, is the index into Allocations::all. The
// age rank counts from the oldest: first the allocations that predate the trace, then the others in
// the order of their alloc entries.
class Document {
 public:
  // REQUIRES: recording->has_device(device).
  Document(std::shared_ptr<const Recording> recording, DeviceIndex device);

  const Recording& recording() const { return recording_.recording(); }
  const DeviceRecording& device_recording() const { return recording_; }
  DeviceIndex device() const { return recording_.device(); }
  bool has_history() const { return recording_.has_history(); }
  // Returns the recorded trace. Without a history, returns one entry with the action kSnapshot,
  // which stands for the final state, so that every document has a moment to show.
  const std::vector<TraceEntry>& trace() const { return *trace_; }
  uint32_t entry_count() const { return static_cast<uint32_t>(trace_->size()); }

  const Allocations& allocations() const { return recording_.allocations(); }
  // Returns the moments at which each allocation occupies memory, including while its free is
  // pending. Indexed by age rank.
  const IntervalIndex& intervals() const { return intervals_; }
  // Returns the requested sizes of the allocations, indexed by age rank.
  const std::vector<uint64_t>& bytes() const { return bytes_; }
  // Returns the ids of the allocations, indexed by age rank.
  const std::vector<uint32_t>& ids() const { return ids_; }
  const Allocation& allocation(uint32_t rank) const { return allocations().all[ids_[rank]]; }
  uint32_t stack_of(const Allocation& allocation) const;
  // Returns the index of the stream in streams().
  uint32_t stream_of(StreamId stream) const { return stream_indexes_.at(stream); }
  // Returns the index of the pool in pools().
  uint32_t pool_of(PoolId pool) const { return pool_indexes_.at(pool); }
  // Returns the number of the allocation's Category. `id` is an index into Allocations::all.
  uint8_t category_of(uint32_t id) const { return static_cast<uint8_t>(categories_->of(id)); }
  // Returns whether phases of training or inference were found.
  bool has_phases() const;
  // Returns the minimum size of the block for a request, according to the recorded options.
  // REQUIRES: requested_bytes > 0.
  uint64_t block_bytes(uint64_t requested_bytes) const;

  // These functions return the requested, allocated and reserved bytes at each moment.
  const TimeSeries& requested() const { return requested_; }
  uint64_t allocated_at(uint32_t moment) const { return allocated_[moment]; }
  uint64_t reserved_at(uint32_t moment) const;
  // Returns the maximum of the reserved bytes over a range.
  // REQUIRES: the range is not empty.
  uint64_t max_reserved(EntryRange range) const;
  // The first moment with the peak of requested bytes.
  uint32_t peak() const { return peak_; }
  // The moment that all reports explain: Timeline::reserved_peak, or the first moment if that peak
  // is before the first entry.
  uint32_t reserved_peak() const { return reserved_peak_; }

  const SegmentHistory& segments() const { return segments_; }
  const GroupRanking& groups(Grouping grouping) const {
    return groups_[static_cast<size_t>(grouping)];
  }
  const std::vector<StreamId>& streams() const { return streams_; }
  const std::vector<PoolId>& pools() const { return pools_; }
  // Returns the time of an entry in microseconds, or NaN if the entry has no time.
  double time_us(uint32_t entry) const;
  // Returns at most `max_count` points of the times, which do not descend; see thin_out(). Returns
  // none if fewer than two entries have a time.
  std::vector<TimePoint> times(size_t max_count) const;

 private:
  struct ReservedStep {
    uint32_t entry = 0;
    uint64_t bytes = 0;  // reserved bytes from this entry on
  };

  std::vector<ReservedStep>::const_iterator reserved_step(uint32_t moment) const;
  void rank_by_age();
  void number_streams_and_pools();
  void compute_sums();
  void compute_reserved();
  void rank_groups();

  DeviceRecording recording_;
  const Categories* categories_;                                // cached by recording_
  std::unique_ptr<const std::vector<TraceEntry>> placeholder_;  // null: there is a history
  const std::vector<TraceEntry>* trace_;                        // the recording's or placeholder_
  IntervalIndex intervals_{};
  std::vector<uint64_t> bytes_{};
  std::vector<uint32_t> ids_{};
  TimeSeries requested_{};
  std::vector<uint64_t> allocated_{};
  std::vector<ReservedStep> reserved_{};
  uint32_t peak_ = 0;
  uint32_t reserved_peak_ = 0;
  SegmentHistory segments_;
  std::vector<StreamId> streams_{};
  std::vector<PoolId> pools_{};
  std::map<StreamId, uint32_t> stream_indexes_{};
  std::map<PoolId, uint32_t> pool_indexes_{};
  GroupRanking groups_[4]{};
};

}  // namespace ashlar::view
