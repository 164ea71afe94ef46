// SPDX-License-Identifier: Apache-2.0
//
// One device's part of one recorded run, prepared so that any question about it is answered in a
// moment: what is there when, in the order in which it came, and how much of it. Constant once
// built, and so thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/recording.h"
#include "view/groups.h"
#include "view/lives.h"
#include "view/segment_history.h"
#include "view/series.h"

namespace ashlar::view {

enum class Grouping { kStack, kStream, kPool };

// Allocations have two numbers: their id, by which the world knows them (their position in
// Allocations::all), and their age rank, which counts from the oldest: those that were there before
// the trace, then in the order in which they were made.
class Document {
 public:
  // REQUIRES: the recording has the device.
  Document(std::shared_ptr<const Recording> recording, DeviceIndex device);

  const Recording& recording() const { return recording_.recording(); }
  const DeviceRecording& device_recording() const { return recording_; }
  DeviceIndex device() const { return recording_.device(); }
  bool has_history() const { return recording_.has_history(); }
  // The recorded trace. Without a history, one entry of kind kSnapshot that stands for the final
  // state, so that every document has a moment to show.
  const std::vector<TraceEntry>& trace() const { return *trace_; }
  uint32_t entry_count() const { return static_cast<uint32_t>(trace_->size()); }

  // --- allocations
  const Allocations& allocations() const { return recording_.allocations(); }
  // By age rank: when they occupy memory (pending time included), how much, and their ids.
  const Lives& lives() const { return lives_; }
  const std::vector<uint64_t>& bytes() const { return bytes_; }
  const std::vector<uint32_t>& ids() const { return ids_; }
  const Allocation& allocation(uint32_t rank) const { return allocations().all[ids_[rank]]; }
  uint32_t stack_of(const Allocation& allocation) const;
  // Positions in streams() and pools().
  uint32_t stream_of(StreamId stream) const { return stream_places_.at(stream); }
  uint32_t pool_of(PoolId pool) const { return pool_places_.at(pool); }
  // What a block that serves so many bytes has of them, as far as the settings tell.
  uint64_t block_bytes(uint64_t requested_bytes) const;

  // --- sums at each moment
  const Series& requested() const { return requested_; }
  uint64_t allocated_at(uint32_t moment) const { return allocated_[moment]; }
  uint64_t reserved_at(uint32_t moment) const;
  // REQUIRES: not empty.
  uint64_t most_reserved(Moments range) const;
  // The first moment with the most requested.
  uint32_t peak() const { return peak_; }
  // When the most was reserved first, with what it was reserved for: the moment whose gap a report
  // explains. Where that was before the trace, the moment there at which the most was requested.
  uint32_t reserved_peak() const { return reserved_peak_; }

  // --- the rest
  const SegmentHistory& segments() const { return segments_; }
  const Groups& groups(Grouping grouping) const { return groups_[static_cast<size_t>(grouping)]; }
  const std::vector<StreamId>& streams() const { return streams_; }
  const std::vector<PoolId>& pools() const { return pools_; }
  // Microseconds; not a number where the recording does not tell.
  double time_us(uint32_t entry) const;

 private:
  struct Step {
    uint32_t entry = 0;
    uint64_t bytes = 0;  // from here on
  };

  std::vector<Step>::const_iterator reserved_step(uint32_t moment) const;
  void order_by_age();
  void name_streams_and_pools();
  void sum_up();
  void follow_reserved();
  void group();

  DeviceRecording recording_;
  std::unique_ptr<const std::vector<TraceEntry>> placeholder_;  // null: there is a history
  const std::vector<TraceEntry>* trace_;                        // the recording's or placeholder_
  Lives lives_{};
  std::vector<uint64_t> bytes_{};
  std::vector<uint32_t> ids_{};
  Series requested_{};
  std::vector<uint64_t> allocated_{};
  std::vector<Step> reserved_{};
  uint32_t peak_ = 0;
  uint32_t reserved_peak_ = 0;
  SegmentHistory segments_;
  std::vector<StreamId> streams_{};
  std::vector<PoolId> pools_{};
  std::map<StreamId, uint32_t> stream_places_{};
  std::map<PoolId, uint32_t> pool_places_{};
  Groups groups_[3]{};
};

}  // namespace ashlar::view
