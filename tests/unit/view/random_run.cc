// SPDX-License-Identifier: Apache-2.0
//
// Eight segments with sixteen slots each. Each step picks a slot and a possible operation on it.
#include "unit/view/random_run.h"

#include <vector>

#include "base/random.h"

namespace ashlar::view {
namespace {

constexpr uint64_t kBase = 0x7f0000000000;
constexpr uint64_t kSegmentBytes = uint64_t{32} << 20;
constexpr uint64_t kPlaceBytes = uint64_t{2} << 20;
constexpr uint64_t kSegments = 8;
constexpr uint64_t kPlaces = kSegmentBytes / kPlaceBytes;

class Maker {
 public:
  explicit Maker(const RandomRun& run) : random_(run.seed), places_(kSegments * kPlaces) {
    snapshot_.device_traces.resize(1);
    snapshot_.tables.frames = {{}, {"inner", "a.py", 1}, {"outer", "b.py", 2}, {"Loss", "c.py", 3}};
    snapshot_.tables.stacks = {{}, {{1, 2}, {}}, {{3, 2}, {}}};
    for (uint64_t segment = 0; segment < kSegments; ++segment)
      is_there_[segment] = segment % 2 == 0;
    for (uint32_t i = 0; i < run.entry_count; ++i) act();
    finish();
  }

  Snapshot take() { return std::move(snapshot_); }

 private:
  enum class Use { kFree, kLive, kPending };
  struct Place {
    Use use = Use::kFree;
    uint64_t bytes = 0;
    uint64_t stream = 0;
    uint32_t stack = 0;
  };

  uint64_t address_of(uint64_t place) const { return kBase + place * kPlaceBytes; }

  void note(TraceAction action, uint64_t address, const Place& place) {
    TraceEntry entry;
    entry.action = action;
    entry.address = DeviceAddress(address);
    entry.bytes = place.bytes;
    entry.stream = StreamId(place.stream);
    entry.stack = StackId(place.stack);
    entry.time_us = 1'000'000 + 10 * ++time_;
    snapshot_.device_traces[0].push_back(entry);
  }

  void act() {
    const uint64_t chosen = random_.below(places_.size());
    const uint64_t segment = chosen / kPlaces;
    Place& place = places_[chosen];
    if (random_.below(40) == 0) return change_segment(segment);
    if (!is_there_[segment]) return note(TraceAction::kSnapshot, 0, {});
    const uint64_t luck = random_.below(100);
    switch (place.use) {
      case Use::kFree:
        // Sometimes frees an allocation that predates the trace.
        place.bytes = luck < 5 ? 0 : 1 + random_.below(luck < 30 ? 1000 : kPlaceBytes);
        place.stream = random_.below(2) * 0x55;
        place.stack = static_cast<uint32_t>(random_.below(3));
        if (luck >= 95) return note(TraceAction::kFreeCompleted, address_of(chosen), place);
        place.use = Use::kLive;
        return note(TraceAction::kAlloc, address_of(chosen), place);
      case Use::kLive:
        if (luck < 3) return note(TraceAction::kAlloc, address_of(chosen), place);
        place.use = Use::kPending;
        return note(TraceAction::kFreeRequested, address_of(chosen), place);
      case Use::kPending:
        place.use = Use::kFree;
        return note(TraceAction::kFreeCompleted, address_of(chosen), place);
    }
  }

  // The last two segments are expandable and are mapped in halves.
  void change_segment(uint64_t segment) {
    for (uint64_t i = 0; i < kPlaces; ++i) {
      if (places_[segment * kPlaces + i].use != Use::kFree) {
        return note(TraceAction::kOom, uint64_t{5} << 20, {.bytes = kSegmentBytes});
      }
    }
    const bool was_there = is_there_[segment];
    is_there_[segment] = !was_there;
    const uint64_t begin = address_of(segment * kPlaces);
    if (segment < kSegments - 2) {
      return note(was_there ? TraceAction::kSegmentFree : TraceAction::kSegmentAlloc, begin,
                  {.bytes = kSegmentBytes});
    }
    const TraceAction action = was_there ? TraceAction::kSegmentUnmap : TraceAction::kSegmentMap;
    note(action, begin, {.bytes = kSegmentBytes / 2});
    note(action, begin + kSegmentBytes / 2, {.bytes = kSegmentBytes / 2});
  }

  void finish() {
    for (uint64_t segment = 0; segment < kSegments; ++segment) {
      if (!is_there_[segment]) continue;
      SnapshotSegment held;
      held.address = DeviceAddress(address_of(segment * kPlaces));
      held.total_bytes = kSegmentBytes;
      held.is_large = true;
      held.is_expandable = segment >= kSegments - 2;
      for (uint64_t i = 0; i < kPlaces; ++i) {
        Place& place = places_[segment * kPlaces + i];
        // Sometimes adds a live block without a trace entry.
        const bool is_unseen = place.use == Use::kFree && random_.below(20) == 0;
        if (is_unseen) place = {Use::kLive, 4096, 0, 1};
        const SnapshotBlockState state = place.use == Use::kFree ? SnapshotBlockState::kInactive
                                         : place.use == Use::kLive
                                             ? SnapshotBlockState::kAllocated
                                             : SnapshotBlockState::kPendingFree;
        held.blocks.push_back({DeviceAddress(address_of(segment * kPlaces + i)), kPlaceBytes,
                               place.use == Use::kFree ? 0 : place.bytes, state,
                               StackId(place.stack)});
      }
      snapshot_.segments.push_back(held);
    }
  }

  Random random_;
  std::vector<Place> places_;
  bool is_there_[kSegments]{};
  Snapshot snapshot_;
  int64_t time_ = 0;
};

}  // namespace

Snapshot random_snapshot(const RandomRun& run) { return Maker(run).take(); }

Document document_of(Snapshot snapshot) {
  const auto recording = Recording::create("run.pickle", std::move(snapshot));
  return Document(recording, recording->devices().front());
}

}  // namespace ashlar::view
