// SPDX-License-Identifier: Apache-2.0
//
// Chooses the addresses of the segments of a replay, and compares its segment events with the
// recorded ones. Not thread safe.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/replay/address_predictor.h"
#include "analysis/replay/fidelity.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// Segments get the recorded addresses until the first segment event that differs from the
// recording; later addresses are predicted. Addresses matter, because the engine takes the block at
// the lowest address among blocks of equal size: with other addresses, a setting that has no effect
// could change the result.
class ReplayedSegments {
 public:
  // `initial` are the segments before the first entry. REQUIRES: `trace` outlives this object.
  ReplayedSegments(const std::vector<TraceEntry>& trace,
                   const std::vector<SnapshotSegment>& initial);

  // Updates the predicted addresses to the state at a trace entry. REQUIRES: entries do not
  // decrease.
  void advance_to(uint32_t entry) { addresses_.advance_to(entry); }
  // Announces that the recorded run obtained this segment for the next request.
  // REQUIRES: `segment` outlives the request.
  void expect(const TraceEntry& segment) { expected_.push_back(&segment); }
  // Ends a request. If the replay obtained fewer segments than expected, it no longer follows the
  // recording.
  void finish_request();

  // Returns the address of a new segment.
  DeviceAddress choose_address(size_t bytes);
  // Adds an event of the replayed engine. `stream` is the recorded stream of the event.
  void add(const TraceEntry& event, StreamId stream, uint64_t alloc_count);

  Fidelity fidelity() const { return compare(recorded_, replayed_); }

 private:
  const std::vector<SegmentEvent> recorded_;
  std::vector<SegmentEvent> replayed_;
  bool follows_recording_ = true;
  std::vector<const TraceEntry*> expected_;
  AddressPredictor addresses_;
};

}  // namespace ashlar
