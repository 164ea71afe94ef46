// SPDX-License-Identifier: Apache-2.0
//
// Collects the segment events of a replay: the reserved bytes over time, and the events to compare
// with the recording. Not thread safe.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/replay/fidelity.h"
#include "analysis/timeline.h"

namespace ashlar {

// The reserved bytes after an entry that changed them.
struct ReservedChange {
  uint32_t entry = 0;
  size_t reserved_bytes = 0;
};

class SegmentTracker {
 public:
  void start(size_t reserved_bytes) {
    reserved_bytes_ = peak_bytes_ = reserved_bytes;
    changes_.push_back({0, reserved_bytes});
  }
  // Sets the entry of the trace that the following events belong to.
  void set_entry(uint32_t entry) { entry_ = entry; }

  // Adds an event of the replayed engine. `stream` is the recorded stream of the event.
  void add(const TraceEntry& event, StreamId stream, uint64_t alloc_count) {
    events_.push_back({event.action, event.bytes, stream, alloc_count});
    reserved_bytes_ += reserved_delta(event);
    changes_.push_back({entry_, reserved_bytes_});
    if (reserved_bytes_ <= peak_bytes_) return;
    peak_bytes_ = reserved_bytes_;
    peak_entry_ = entry_;
  }

  const std::vector<SegmentEvent>& events() const { return events_; }
  uint32_t peak_entry() const { return peak_entry_; }
  std::vector<ReservedChange> take_changes() { return std::move(changes_); }

 private:
  uint32_t entry_ = 0;
  size_t reserved_bytes_ = 0;
  size_t peak_bytes_ = 0;
  uint32_t peak_entry_ = 0;
  std::vector<ReservedChange> changes_;
  std::vector<SegmentEvent> events_;
};

}  // namespace ashlar
