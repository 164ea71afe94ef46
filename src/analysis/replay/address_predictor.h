// SPDX-License-Identifier: Apache-2.0
//
// Predicts the addresses of segments under other settings than the recorded ones. Combines the
// driver's placement rule with the inferred events of the recorded process, each applied at its
// trace entry. Under the recorded settings, the prediction reproduces the addresses that
// infer_allocations() could explain. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/replay/inferred_allocations.h"
#include "ashlar/snapshot.h"
#include "device/sim/driver_addresses.h"

namespace ashlar {

class AddressPredictor {
 public:
  // `initial` are the segments before the first entry; they count as allocated.
  explicit AddressPredictor(const std::vector<TraceEntry>& trace,
                            const std::vector<SnapshotSegment>& initial = {});

  // Applies the inferred events up to and including this entry.
  // REQUIRES: entries do not decrease.
  void advance_to(uint32_t entry);
  // Returns the address of a new segment; 0: no address space is left.
  uint64_t allocate(size_t bytes) { return addresses_.allocate(bytes); }
  void free(uint64_t address) { addresses_.free(address); }

 private:
  using Range = sim::DriverAddresses::Range;
  struct MovedRange {
    size_t bytes = 0;
    uint64_t new_begin = 0;
  };
  // The segment_alloc and segment_free entries of a trace, preceded by one segment_alloc entry for
  // each initial segment.
  struct SegmentHistory {
    std::vector<TraceEntry> events{};
    std::vector<uint32_t> entries{};  // index of each event in the trace; 0: an initial segment
    size_t initial_count = 0;
  };
  static SegmentHistory segment_history(const std::vector<TraceEntry>& trace,
                                        const std::vector<SnapshotSegment>& initial);
  explicit AddressPredictor(SegmentHistory history);
  void apply(const InferredEvent& event);
  Range current_range(const Range& recorded) const;

  const std::vector<uint32_t> entries_;  // SegmentHistory::entries
  const InferredAllocations inferred_;   // its entries are indexes of SegmentHistory::events
  size_t next_ = 0;
  sim::DriverAddresses addresses_;
  // Ranges that the prediction places elsewhere than recorded, keyed by recorded address.
  std::map<uint64_t, MovedRange> moved_;
};

}  // namespace ashlar
