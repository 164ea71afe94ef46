// SPDX-License-Identifier: Apache-2.0
//
// Feeds the recorded segments to the driver's placement rule one by one, and infers events until
// the rule predicts each recorded address.
#include "analysis/replay/inferred_allocations.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/align.h"

namespace ashlar {
namespace {

using sim::DriverAddresses;
using Range = DriverAddresses::Range;

constexpr size_t kChunkBytes = DriverAddresses::kChunkBytes;
constexpr size_t kGranuleBytes = size_t{2} << 20;        // allocation granularity of the driver
constexpr uint64_t kHighestAddress = uint64_t{1} << 52;  // higher addresses are implausible
// These limits bound the work for inconsistent files.
constexpr int kMaxGuesses = 100;  // guesses per segment
constexpr size_t kMaxEvents = 10000;

Range range_of(const TraceEntry& entry) {
  return {entry.address.value(), entry.address.value() + entry.bytes};
}

// Returns the chunk that the driver would create for the segment if no existing chunk had space.
Range chunk_of(const Range& segment) { return {segment.begin, align_up(segment.end, kChunkBytes)}; }

bool is_plausible(const TraceEntry& entry) {
  const uint64_t at = entry.address.value();
  return at >= kChunkBytes && at < kHighestAddress && entry.bytes > 0 &&
         entry.bytes < kHighestAddress - at;
}

class Inference {
 public:
  explicit Inference(const std::vector<TraceEntry>& trace);
  InferredAllocations run();

 private:
  void explain(uint32_t entry);
  void add_event(InferredEvent::Kind kind, const Range& at);
  bool assume_free_space(const Range& segment);
  bool open_gap(const Range& segment);
  void assume_allocation(const Range& hole, const Range& segment);
  void close_gap_above(const Range& segment, uint64_t expected);
  bool is_new_chunk(const Range& segment) const;
  uint64_t end_of_run(const Range& segment) const;
  bool is_unknown(const Range& range) const;
  std::optional<Range> next_segment_at(uint64_t at) const;

  const std::vector<TraceEntry>& trace_;
  std::map<uint64_t, std::vector<uint32_t>> entries_;  // segment_alloc entries, keyed by address
  DriverAddresses addresses_{0, 0};                    // addresses of the recorded process
  uint32_t entry_ = 0;
  InferredAllocations inferred_;
};

Inference::Inference(const std::vector<TraceEntry>& trace) : trace_(trace) {
  bool found_chunk = false;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    if (trace[i].action != TraceAction::kSegmentAlloc || !is_plausible(trace[i])) continue;
    const Range segment = range_of(trace[i]);
    entries_[segment.begin].push_back(i);
    const bool is_first = !found_chunk && is_aligned(segment.begin, kChunkBytes);
    if (is_first) inferred_.end = chunk_of(segment).end;
    found_chunk = found_chunk || is_first;
  }
  if (!found_chunk && !entries_.empty()) {
    inferred_.end = align_down(entries_.begin()->first, kChunkBytes);
  }
  addresses_ = DriverAddresses(kChunkBytes, inferred_.end);
}

InferredAllocations Inference::run() {
  for (entry_ = 0; entry_ < trace_.size() && inferred_.events.size() < kMaxEvents; ++entry_) {
    const TraceEntry& entry = trace_[entry_];
    const bool is_segment = entry.action == TraceAction::kSegmentAlloc && is_plausible(entry);
    if (is_segment) explain(entry_);
    if (entry.action == TraceAction::kSegmentFree) addresses_.free(entry.address.value());
  }
  return std::move(inferred_);
}

void Inference::explain(uint32_t entry) {
  const Range segment = range_of(trace_[entry]);
  for (int guess = 0; guess < kMaxGuesses; ++guess) {
    const uint64_t expected = addresses_.next_address(segment.bytes());
    if (expected == segment.begin) {
      addresses_.allocate(segment.bytes());
      return;
    }
    const std::optional<Range> known_hole = addresses_.hole_at(segment.begin);
    const bool is_known = known_hole && known_hole->contains(segment);
    const bool is_chunk = !is_known && is_new_chunk(segment);
    const std::optional<Range> hole = addresses_.hole_at(expected);
    const bool hole_was_free = next_segment_at(expected).has_value();
    if (hole && (is_known || is_chunk || !hole_was_free)) {
      assume_allocation(*hole, segment);
    } else if (!is_chunk) {
      if (!assume_free_space(segment)) return;
    } else if (segment.begin > expected) {
      if (!open_gap(segment)) return;
    } else {
      close_gap_above(segment, expected);
    }
  }
}

void Inference::add_event(InferredEvent::Kind kind, const Range& at) {
  inferred_.events.push_back({entry_, kind, at, trace_[entry_].bytes});
}

// Assumes free space in an existing chunk. The space covers the run of adjacent later segments that
// begins with this segment. It extends to the next segment or the end of the chunk unless it would
// then overlap a known chunk. Returns false if even the run overlaps a known chunk.
bool Inference::assume_free_space(const Range& segment) {
  const uint64_t run_end = end_of_run(segment);
  Range space{segment.begin, align_up(run_end, kChunkBytes)};
  const auto next = entries_.lower_bound(run_end);
  if (next != entries_.end()) space.end = std::min(space.end, next->first);
  if (addresses_.overlaps_chunk(space)) space.end = run_end;
  if (addresses_.overlaps_chunk(space)) return false;
  addresses_.add_chunk(space, segment.bytes());
  add_event(InferredEvent::Kind::kFoundSpace, space);
  return true;
}

// Assumes a gap that is just large enough for a new chunk: the chunk and 32 MiB more. If the gap
// overlaps a chunk, assumes free space in an existing chunk instead.
bool Inference::open_gap(const Range& segment) {
  const Range chunk = chunk_of(segment);
  const Range gap{chunk.begin - kChunkBytes, chunk.end};
  if (addresses_.overlaps_chunk(gap)) return assume_free_space(segment);
  addresses_.open_gap(gap);
  add_event(InferredEvent::Kind::kGapOpened, gap);
  return true;
}

// Assumes an allocation at the beginning of the hole. If the hole contains the segment, the
// allocation ends at the segment; otherwise it is so large that the segment no longer fits.
void Inference::assume_allocation(const Range& hole, const Range& segment) {
  Range allocated = hole;
  if (hole.contains(segment)) {
    allocated.end = segment.begin;
  } else {
    const size_t bytes = align_up(hole.bytes() - segment.bytes() + 1, kGranuleBytes);
    allocated.end = std::min(hole.end, hole.begin + bytes);
  }
  addresses_.allocate_in_hole(allocated);
  add_event(InferredEvent::Kind::kAllocated, allocated);
}

void Inference::close_gap_above(const Range& segment, uint64_t expected) {
  const Range gap = *addresses_.gap_at(expected);
  const Range chunk = chunk_of(segment);
  const Range closed{gap.contains(chunk) ? chunk.end : expected, gap.end};
  addresses_.close_gap(closed);
  add_event(InferredEvent::Kind::kGapClosed, closed);
}

// Returns whether the segment begins a new chunk. If later segments fill the addresses above it
// beyond the end of that chunk, they are all in a larger chunk, which existed before.
bool Inference::is_new_chunk(const Range& segment) const {
  const Range chunk = chunk_of(segment);
  const Range run{segment.begin, end_of_run(segment)};
  const bool is_longer = run.end > chunk.end && is_unknown(run);
  return is_aligned(segment.begin, kChunkBytes) && !addresses_.overlaps_chunk(chunk) && !is_longer;
}

uint64_t Inference::end_of_run(const Range& segment) const {
  uint64_t end = segment.end;
  for (auto next = next_segment_at(end); next && is_unknown(*next); next = next_segment_at(end))
    end = next->end;
  return end;
}

bool Inference::is_unknown(const Range& range) const {
  return !addresses_.overlaps_chunk(range) && !addresses_.overlaps_gap(range);
}

// Returns the next segment at this address after the current entry.
std::optional<Range> Inference::next_segment_at(uint64_t at) const {
  const auto entries = entries_.find(at);
  if (entries == entries_.end()) return std::nullopt;
  const auto& all = entries->second;
  const auto later = std::upper_bound(all.begin(), all.end(), entry_);
  if (later == all.end()) return std::nullopt;
  return range_of(trace_[*later]);
}

}  // namespace

InferredAllocations infer_allocations(const std::vector<TraceEntry>& trace) {
  return Inference(trace).run();
}

}  // namespace ashlar
