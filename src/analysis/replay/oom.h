// SPDX-License-Identifier: Apache-2.0
//
// Why an allocation found no memory: what it asked for, what was free, what kept that from being
// used, and which settings would have had room. Settings are proven by replay under the same limit.
#pragma once

#include <optional>
#include <vector>

#include "analysis/replay/tune.h"

namespace ashlar {

struct OomQuestion {
  // Capacity, cap and the rest of how to replay. Where no limit is given, a file with a recorded
  // failure tells between which two bounds the limit of its process lay.
  TuneOptions replaying{};
  bool is_limit_given = false;
};

// What the process could have:  at_least_bytes <= limit < below_bytes. Equal: it was given.
struct OomLimit {
  size_t at_least_bytes = 0;
  size_t below_bytes = 0;
  size_t replayed_bytes = 0;  // the limit that the replays were held to
  bool is_of_device = false;  // all that the device had; false: a cap on the process

  bool is_inferred() const { return below_bytes != at_least_bytes; }
};

// A block in use.
struct PinningBlock {
  DeviceAddress address{};
  size_t bytes = 0;
  size_t requested_bytes = 0;
  StackId stack{};
  std::optional<uint32_t> made{};   // the entry that made it; unset: it was there before
  std::optional<int64_t> age_us{};  // at the failure; unset: not known
};

// A segment with free memory that its live blocks keep from being given back.
struct PinnedSegment {
  DeviceAddress address{};
  size_t total_bytes = 0;
  size_t free_bytes = 0;
  size_t largest_hole_bytes = 0;
  StreamId stream{};
  bool is_usable = false;               // for the failed request, as far as stream and pool go
  size_t live_count = 0;                // blocks in use
  std::vector<PinningBlock> largest{};  // of them, a few
};

// The allocator at the failure, when all that could be given back was.
struct OomState {
  size_t reserved_bytes = 0;
  size_t allocated_bytes = 0;
  size_t free_bytes = 0;         // reserved, but not in use
  size_t usable_free_bytes = 0;  // of it, what lies in the stream and the pool of the request
  size_t largest_hole_bytes = 0;
  size_t largest_usable_hole_bytes = 0;
  std::vector<PinnedSegment> pinned{};  // those with the most free bytes, most first; a few
};

struct OomReport {
  // Unset: what was there before the first entry has no room already.
  std::optional<uint32_t> entry{};
  bool was_recorded = false;                // it failed in the recorded run, too
  std::optional<size_t> requested_bytes{};  // unset: the file only has it rounded
  size_t rounded_bytes = 0;
  size_t segment_bytes = 0;  // what it would have taken from the device
  StreamId stream{};
  StackId stack{};
  size_t device_free_bytes = 0;  // as recorded, or else as replayed
  OomLimit limit{};
  std::optional<OomState> state{};  // unset: the recorded failure did not happen in the replay
  TuneResult settings{};
};

// The first failure of the run; unset: there is none.
// Fails as tune() does.
Result<std::optional<OomReport>> explain_oom(const Snapshot& snapshot,
                                             const Allocations& allocations,
                                             const OomQuestion& question);

}  // namespace ashlar
