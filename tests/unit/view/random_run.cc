// SPDX-License-Identifier: Apache-2.0
//
// Builds eight segments with sixteen slots each. Each step draws a slot and an operation that is
// possible on it.
#include "unit/view/random_run.h"

#include <vector>

#include "base/random.h"

namespace ashlar::view {
namespace {

constexpr uint64_t kBase = 0x7f0000000000;
constexpr uint64_t kSegmentBytes = uint64_t{32} << 20;
constexpr uint64_t kSlotBytes = uint64_t{2} << 20;
constexpr uint64_t kSegmentCount = 8;
constexpr uint64_t kSlotCount = kSegmentBytes / kSlotBytes;

class RandomSnapshot {
 public:
  explicit RandomSnapshot(const RandomRun& run)
      : random_(run.seed), slots_(kSegmentCount * kSlotCount) {
    snapshot_.device_traces.resize(1);
    snapshot_.tables.frames = {{}, {"inner", "a.py", 1}, {"outer", "b.py", 2}, {"Loss", "c.py", 3}};
    snapshot_.tables.stacks = {{}, {{1, 2}, {}}, {{3, 2}, {}}};
    for (uint64_t segment = 0; segment < kSegmentCount; ++segment)
      is_mapped_[segment] = segment % 2 == 0;
    for (uint32_t i = 0; i < run.entry_count; ++i) add_step();
    finish();
  }

  Snapshot take() { return std::move(snapshot_); }

 private:
  enum class Use { kFree, kLive, kPending };
  struct Slot {
    Use use = Use::kFree;
    uint64_t bytes = 0;
    uint64_t stream = 0;
    uint32_t stack = 0;
  };

  uint64_t address_of(uint64_t slot) const { return kBase + slot * kSlotBytes; }

  void add_entry(TraceAction action, uint64_t address, const Slot& slot) {
    TraceEntry entry;
    entry.action = action;
    entry.address = DeviceAddress(address);
    entry.bytes = slot.bytes;
    entry.stream = StreamId(slot.stream);
    entry.stack = StackId(slot.stack);
    entry.time_us = 1'000'000 + 10 * ++time_;
    snapshot_.device_traces[0].push_back(entry);
  }

  void add_step() {
    const uint64_t chosen = random_.below(slots_.size());
    const uint64_t segment = chosen / kSlotCount;
    Slot& slot = slots_[chosen];
    if (random_.below(40) == 0) return change_segment(segment);
    if (!is_mapped_[segment]) return add_entry(TraceAction::kSnapshot, 0, {});
    const uint64_t percent = random_.below(100);
    switch (slot.use) {
      case Use::kFree:
        // Some steps free an allocation that predates the trace.
        slot.bytes = percent < 5 ? 0 : 1 + random_.below(percent < 30 ? 1000 : kSlotBytes);
        slot.stream = random_.below(2) * 0x55;
        slot.stack = static_cast<uint32_t>(random_.below(3));
        if (percent >= 95) return add_entry(TraceAction::kFreeCompleted, address_of(chosen), slot);
        slot.use = Use::kLive;
        return add_entry(TraceAction::kAlloc, address_of(chosen), slot);
      case Use::kLive:
        if (percent < 3) return add_entry(TraceAction::kAlloc, address_of(chosen), slot);
        slot.use = Use::kPending;
        return add_entry(TraceAction::kFreeRequested, address_of(chosen), slot);
      case Use::kPending:
        slot.use = Use::kFree;
        return add_entry(TraceAction::kFreeCompleted, address_of(chosen), slot);
    }
  }

  // Allocates or frees a segment. The last two segments are expandable and are mapped in halves.
  void change_segment(uint64_t segment) {
    for (uint64_t i = 0; i < kSlotCount; ++i) {
      if (slots_[segment * kSlotCount + i].use != Use::kFree) {
        return add_entry(TraceAction::kOom, uint64_t{5} << 20, {.bytes = kSegmentBytes});
      }
    }
    const bool was_mapped = is_mapped_[segment];
    is_mapped_[segment] = !was_mapped;
    const uint64_t begin = address_of(segment * kSlotCount);
    if (segment < kSegmentCount - 2) {
      return add_entry(was_mapped ? TraceAction::kSegmentFree : TraceAction::kSegmentAlloc, begin,
                       {.bytes = kSegmentBytes});
    }
    const TraceAction action = was_mapped ? TraceAction::kSegmentUnmap : TraceAction::kSegmentMap;
    add_entry(action, begin, {.bytes = kSegmentBytes / 2});
    add_entry(action, begin + kSegmentBytes / 2, {.bytes = kSegmentBytes / 2});
  }

  void finish() {
    for (uint64_t segment = 0; segment < kSegmentCount; ++segment) {
      if (!is_mapped_[segment]) continue;
      SnapshotSegment final_segment;
      final_segment.address = DeviceAddress(address_of(segment * kSlotCount));
      final_segment.total_bytes = kSegmentBytes;
      final_segment.is_large = true;
      final_segment.is_expandable = segment >= kSegmentCount - 2;
      for (uint64_t i = 0; i < kSlotCount; ++i) {
        Slot& slot = slots_[segment * kSlotCount + i];
        // Some live blocks have no trace entry.
        const bool is_untraced = slot.use == Use::kFree && random_.below(20) == 0;
        if (is_untraced) slot = {Use::kLive, 4096, 0, 1};
        const SnapshotBlockState state = slot.use == Use::kFree ? SnapshotBlockState::kInactive
                                         : slot.use == Use::kLive
                                             ? SnapshotBlockState::kAllocated
                                             : SnapshotBlockState::kPendingFree;
        final_segment.blocks.push_back({DeviceAddress(address_of(segment * kSlotCount + i)),
                                        kSlotBytes, slot.use == Use::kFree ? 0 : slot.bytes, state,
                                        StackId(slot.stack)});
      }
      snapshot_.segments.push_back(final_segment);
    }
  }

  Random random_;
  std::vector<Slot> slots_;
  bool is_mapped_[kSegmentCount]{};
  Snapshot snapshot_;
  int64_t time_ = 0;
};

}  // namespace

Snapshot random_snapshot(const RandomRun& run) { return RandomSnapshot(run).take(); }

Document document_of(Snapshot snapshot) {
  const auto recording = Recording::create("run.pickle", std::move(snapshot));
  return Document(recording, recording->devices().front());
}

}  // namespace ashlar::view
