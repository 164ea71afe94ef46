// SPDX-License-Identifier: Apache-2.0
//
// Undoes the trace to find the initial pieces, replays it to find their lifetimes, and then assigns
// pieces to segments.
#include "view/segment_history.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace ashlar::view {
namespace {

// The mapped pieces during a pass over the trace, without overlaps.
class PieceTracker {
 public:
  using Pieces = std::map<uint64_t, uint32_t>;  // index into `all`, keyed by begin address

  std::vector<SegmentPiece> all{};
  std::vector<EntryInterval> intervals{};

  void add(SegmentPiece piece, uint32_t entry) {
    const uint64_t max_bytes = UINT64_MAX - piece.range.begin.value();
    piece.range.bytes = std::min(piece.range.bytes, max_bytes);  // files may be inconsistent
    if (piece.range.bytes == 0) return;
    remove(piece.range, entry);
    pieces_[piece.range.begin.value()] = static_cast<uint32_t>(all.size());
    all.push_back(piece);
    intervals.push_back({.begin = entry});
  }

  // Ends the pieces in the range. Pieces that are only partly in the range are cut.
  void remove(AddressRange range, uint32_t entry) {
    const uint64_t begin = range.begin.value();
    const uint64_t end = begin + std::min(range.bytes, UINT64_MAX - begin);
    auto at = pieces_.upper_bound(begin);
    if (at != pieces_.begin()) --at;
    while (at != pieces_.end() && at->first < end) {
      const uint32_t id = at->second;
      const uint64_t old_begin = at->first;
      const uint64_t old_end = old_begin + all[id].range.bytes;
      if (old_end <= begin) {
        ++at;
        continue;
      }
      intervals[id].end = entry;
      at = pieces_.erase(at);
      if (old_begin < begin) keep(id, {DeviceAddress(old_begin), begin - old_begin}, entry);
      if (old_end > end) keep(id, {DeviceAddress(end), old_end - end}, entry);
    }
  }

  const Pieces& pieces() const { return pieces_; }

 private:
  void keep(uint32_t id, AddressRange remaining, uint32_t entry) {
    SegmentPiece piece = all[id];
    piece.range = remaining;
    pieces_[remaining.begin.value()] = static_cast<uint32_t>(all.size());
    all.push_back(piece);
    intervals.push_back({.begin = entry});
  }

  Pieces pieces_;
};

bool is_expandable_event(TraceAction action) {
  return action == TraceAction::kSegmentMap || action == TraceAction::kSegmentUnmap;
}
bool maps_memory(TraceAction action) {
  return action == TraceAction::kSegmentAlloc || action == TraceAction::kSegmentMap;
}
bool unmaps_memory(TraceAction action) {
  return action == TraceAction::kSegmentFree || action == TraceAction::kSegmentUnmap;
}

SegmentPiece piece_of(const TraceEntry& entry) {
  return {.range = {entry.address, entry.bytes},
          .stream = entry.stream,
          .pool = entry.pool,
          .is_expandable = is_expandable_event(entry.action)};
}

SegmentPiece piece_of(const SnapshotSegment& segment) {
  return {.range = {segment.address, segment.total_bytes},
          .stream = segment.stream,
          .pool = segment.pool,
          .is_expandable = segment.is_expandable};
}

std::vector<SnapshotView> views_of(const Snapshot& snapshot, DeviceIndex device) {
  std::vector<SnapshotView> views;
  for (const SnapshotView& view : snapshot.views) {
    if (view.device == device) views.push_back(view);
  }
  return views;
}

// Returns the pieces after the last trace entry. The memory of views is at the addresses that the
// trace has for it (SnapshotExtent::traced_address). All other pieces are segments of the snapshot.
std::vector<SegmentPiece> after_last_entry(const Snapshot& snapshot, DeviceIndex device) {
  const bool has_views = !views_of(snapshot, device).empty();
  std::vector<SegmentPiece> pieces;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device || (has_views && segment.is_expandable)) continue;
    pieces.push_back(piece_of(segment));
  }
  for (const SnapshotExtent& extent : snapshot.extents) {
    if (extent.device != device || !extent.traced_address) continue;
    pieces.push_back({.range = {*extent.traced_address, extent.bytes},
                      .stream = extent.stream,
                      .pool = extent.pool,
                      .is_expandable = true});
  }
  return pieces;
}

std::vector<SegmentPiece> before_first_entry(const Snapshot& snapshot, DeviceIndex device,
                                             const std::vector<TraceEntry>& trace) {
  PieceTracker present;
  for (const SegmentPiece& piece : after_last_entry(snapshot, device)) present.add(piece, 0);
  for (auto entry = trace.rbegin(); entry != trace.rend(); ++entry) {
    if (maps_memory(entry->action)) present.remove(piece_of(*entry).range, 0);
    if (unmaps_memory(entry->action)) present.add(piece_of(*entry), 0);
  }
  std::vector<SegmentPiece> found;
  for (const auto& [address, id] : present.pieces()) found.push_back(present.all[id]);
  return found;
}

// Returns the index of the view that contains the address, or kNoIndex.
// REQUIRES: `views` is sorted by address.
uint32_t find_view(const std::vector<SnapshotView>& views, DeviceAddress at) {
  const auto begins_after = [](DeviceAddress address, const SnapshotView& view) {
    return address < view.address;
  };
  const auto after = std::upper_bound(views.begin(), views.end(), at, begins_after);
  if (after == views.begin()) return kNoIndex;
  const SnapshotView& view = *std::prev(after);
  const bool contains_address = AddressRange{view.address, view.reserved_bytes}.contains(at);
  return contains_address ? static_cast<uint32_t>(&view - views.data()) : kNoIndex;
}

// Sets the owner of each piece of an expandable segment. Pieces of one view have the same owner.
// Outside of views, pieces of the same stream and pool whose addresses adjoin or overlap, even at
// different moments, belong to one segment.
void assign_owners(const std::vector<SnapshotView>& views, std::vector<SegmentPiece>& pieces) {
  std::vector<uint32_t> order;
  for (uint32_t id = 0; id < pieces.size(); ++id) {
    if (!pieces[id].is_expandable) continue;
    pieces[id].owner = find_view(views, pieces[id].range.begin);
    if (pieces[id].owner == kNoIndex) order.push_back(id);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto key = [&](uint32_t id) {
      return std::tuple(pieces[id].stream, pieces[id].pool, pieces[id].range.begin, id);
    };
    return key(a) < key(b);
  });
  auto owner = static_cast<uint32_t>(views.size());
  DeviceAddress end{};
  const SegmentPiece* last = nullptr;
  for (const uint32_t id : order) {
    SegmentPiece& piece = pieces[id];
    const bool joins = last != nullptr && last->stream == piece.stream &&
                       last->pool == piece.pool && piece.range.begin <= end;
    if (!joins && last != nullptr) ++owner;
    end = joins ? std::max(end, piece.range.end()) : piece.range.end();
    piece.owner = owner;
    last = &piece;
  }
}

}  // namespace

SegmentHistory::SegmentHistory(const Snapshot& snapshot, DeviceIndex device,
                               const std::vector<TraceEntry>& trace) {
  PieceTracker present;
  for (const SegmentPiece& piece : before_first_entry(snapshot, device, trace))
    present.add(piece, 0);
  for (uint32_t i = 0; i < trace.size(); ++i) {
    if (maps_memory(trace[i].action)) present.add(piece_of(trace[i]), i);
    if (unmaps_memory(trace[i].action)) present.remove(piece_of(trace[i]).range, i);
  }
  const std::vector<SnapshotView> views = views_of(snapshot, device);
  if (!views.empty() && !trace.empty()) {
    const auto last = static_cast<uint32_t>(trace.size() - 1);
    present.remove({DeviceAddress(), UINT64_MAX}, last);
    for (const SnapshotSegment& segment : snapshot.segments) {
      const bool exists = segment.device == device && !segment.is_paused;
      if (exists) present.add(piece_of(segment), last);
    }
  }
  assign_owners(views, present.all);
  pieces_ = std::move(present.all);
  intervals_ = IntervalIndex(std::move(present.intervals), static_cast<uint32_t>(trace.size()));
}

std::vector<SegmentPiece> SegmentHistory::at(uint32_t moment) const {
  std::vector<SegmentPiece> found;
  for (const uint32_t id : intervals_.at(moment)) found.push_back(pieces_[id]);
  std::sort(found.begin(), found.end(), [](const SegmentPiece& a, const SegmentPiece& b) {
    return a.range.begin < b.range.begin;
  });
  return found;
}

}  // namespace ashlar::view
