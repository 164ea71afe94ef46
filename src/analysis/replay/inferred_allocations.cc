// SPDX-License-Identifier: Apache-2.0
//
// The recorded segments are given to the rule one by one; whatever it gets wrong is mended.
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
constexpr size_t kGranuleBytes = size_t{2} << 20;        // of what the driver hands out
constexpr uint64_t kHighestAddress = uint64_t{1} << 52;  // more than any process has
// So that nonsense ends: of guesses for one address, and of acts that are believed.
constexpr int kMostGuesses = 100;
constexpr size_t kMostActs = 10000;

Range range_of(const TraceEntry& entry) {
  return {entry.address.value(), entry.address.value() + entry.bytes};
}

// The chunk that it would need for itself.
Range chunk_of(const Range& segment) { return {segment.begin, align_up(segment.end, kChunkBytes)}; }

bool is_plausible(const TraceEntry& entry) {
  const uint64_t at = entry.address.value();
  return at >= kChunkBytes && at < kHighestAddress && entry.bytes > 0 &&
         entry.bytes < kHighestAddress - at;
}

class Finder {
 public:
  explicit Finder(const std::vector<TraceEntry>& trace);
  Unseen find();

 private:
  void explain(uint32_t entry);
  void note(UnseenAct::Kind kind, const Range& at);
  bool reveal(const Range& segment);
  bool open_gap(const Range& segment);
  void take_of(const Range& hole, const Range& segment);
  void close_gap_above(const Range& segment, uint64_t expected);
  bool is_new_chunk(const Range& segment) const;
  uint64_t end_of_row(const Range& segment) const;
  bool is_unknown(const Range& range) const;
  std::optional<Range> later_at(uint64_t at) const;

  const std::vector<TraceEntry>& trace_;
  std::map<uint64_t, std::vector<uint32_t>> entries_;  // that take segments, by address
  DriverAddresses addresses_{0, 0};                    // of the recorded process
  uint32_t entry_ = 0;
  Unseen unseen_;
};

Finder::Finder(const std::vector<TraceEntry>& trace) : trace_(trace) {
  bool found_chunk = false;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    if (trace[i].action != TraceAction::kSegmentAlloc || !is_plausible(trace[i])) continue;
    const Range segment = range_of(trace[i]);
    entries_[segment.begin].push_back(i);
    const bool is_first = !found_chunk && is_aligned(segment.begin, kChunkBytes);
    if (is_first) unseen_.end = chunk_of(segment).end;
    found_chunk = found_chunk || is_first;
  }
  if (!found_chunk && !entries_.empty()) {
    unseen_.end = align_down(entries_.begin()->first, kChunkBytes);
  }
  addresses_ = DriverAddresses(kChunkBytes, unseen_.end);
}

Unseen Finder::find() {
  for (entry_ = 0; entry_ < trace_.size() && unseen_.acts.size() < kMostActs; ++entry_) {
    const TraceEntry& entry = trace_[entry_];
    const bool takes = entry.action == TraceAction::kSegmentAlloc && is_plausible(entry);
    if (takes) explain(entry_);
    if (entry.action == TraceAction::kSegmentFree) addresses_.give_back(entry.address.value());
  }
  return std::move(unseen_);
}

void Finder::explain(uint32_t entry) {
  const Range segment = range_of(trace_[entry]);
  for (int guess = 0; guess < kMostGuesses; ++guess) {
    const uint64_t expected = addresses_.where(segment.bytes());
    if (expected == segment.begin) {
      addresses_.take(segment.bytes());
      return;
    }
    const std::optional<Range> known_hole = addresses_.hole_at(segment.begin);
    const bool is_known = known_hole && known_hole->contains(segment);
    const bool is_chunk = !is_known && is_new_chunk(segment);
    const std::optional<Range> hole = addresses_.hole_at(expected);
    const bool hole_was_free = later_at(expected).has_value();
    if (hole && (is_known || is_chunk || !hole_was_free)) {
      take_of(*hole, segment);
    } else if (!is_chunk) {
      if (!reveal(segment)) return;
    } else if (segment.begin > expected) {
      if (!open_gap(segment)) return;
    } else {
      close_gap_above(segment, expected);
    }
  }
}

void Finder::note(UnseenAct::Kind kind, const Range& at) {
  unseen_.acts.push_back({entry_, kind, at, trace_[entry_].bytes});
}

// Room in an old chunk: as far as later segments lie there in a row, and from there to the next
// segment or to the end of a chunk.
bool Finder::reveal(const Range& segment) {
  const uint64_t row_end = end_of_row(segment);
  Range room{segment.begin, align_up(row_end, kChunkBytes)};
  const auto next = entries_.lower_bound(row_end);
  if (next != entries_.end()) room.end = std::min(room.end, next->first);
  if (addresses_.touches_chunk(room)) room.end = row_end;
  if (addresses_.touches_chunk(room)) return false;
  addresses_.add_chunk(room, segment.bytes());
  note(UnseenAct::Kind::kRevealed, room);
  return true;
}

// As much as a new chunk needs: 32 MiB more than it is long. Where these are not free, it is none.
bool Finder::open_gap(const Range& segment) {
  const Range chunk = chunk_of(segment);
  const Range gap{chunk.begin - kChunkBytes, chunk.end};
  if (addresses_.touches_chunk(gap)) return reveal(segment);
  addresses_.open_gap(gap);
  note(UnseenAct::Kind::kOpenedGap, gap);
  return true;
}

// From the hole's beginning: to the segment if that lies in it, or else so much that the segment
// did not fit any more.
void Finder::take_of(const Range& hole, const Range& segment) {
  Range taken = hole;
  if (hole.contains(segment)) {
    taken.end = segment.begin;
  } else {
    const size_t bytes = align_up(hole.bytes() - segment.bytes() + 1, kGranuleBytes);
    taken.end = std::min(hole.end, hole.begin + bytes);
  }
  addresses_.take_from_hole(taken);
  note(UnseenAct::Kind::kTook, taken);
}

void Finder::close_gap_above(const Range& segment, uint64_t expected) {
  const Range gap = *addresses_.gap_at(expected);
  const Range chunk = chunk_of(segment);
  const Range closed{gap.contains(chunk) ? chunk.end : expected, gap.end};
  addresses_.close_gap(closed);
  note(UnseenAct::Kind::kClosedGap, closed);
}

// If segments follow each other beyond the end of the chunk that this one would need, they lie in a
// larger one.
bool Finder::is_new_chunk(const Range& segment) const {
  const Range chunk = chunk_of(segment);
  const Range row{segment.begin, end_of_row(segment)};
  const bool is_longer = row.end > chunk.end && is_unknown(row);
  return is_aligned(segment.begin, kChunkBytes) && !addresses_.touches_chunk(chunk) && !is_longer;
}

uint64_t Finder::end_of_row(const Range& segment) const {
  uint64_t end = segment.end;
  for (auto next = later_at(end); next && is_unknown(*next); next = later_at(end)) end = next->end;
  return end;
}

bool Finder::is_unknown(const Range& range) const {
  return !addresses_.touches_chunk(range) && !addresses_.touches_gap(range);
}

// The next segment that begins there.
std::optional<Range> Finder::later_at(uint64_t at) const {
  const auto entries = entries_.find(at);
  if (entries == entries_.end()) return std::nullopt;
  const auto& all = entries->second;
  const auto later = std::upper_bound(all.begin(), all.end(), entry_);
  if (later == all.end()) return std::nullopt;
  return range_of(trace_[*later]);
}

}  // namespace

Unseen find_unseen(const std::vector<TraceEntry>& trace) { return Finder(trace).find(); }

}  // namespace ashlar
