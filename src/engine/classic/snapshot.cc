// SPDX-License-Identifier: Apache-2.0
//
// What the engine holds, block by block, in the words of a snapshot.
#include <algorithm>

#include "base/text.h"
#include "engine/classic/act.h"

namespace ashlar::classic {
namespace {

// From its first block to where its memory ends.
SnapshotSegment shown_from(const ClassicBlock& first, DeviceIndex device) {
  SnapshotSegment segment;
  segment.device = device;
  segment.address = first.address;
  segment.stream = first.stream;
  segment.is_large = !first.pool->is_small();
  segment.is_expandable = first.expandable != nullptr;
  segment.stack = first.segment_stack;
  if (const PrivatePool* owner = first.pool->owner()) segment.pool = owner->id;
  for (const ClassicBlock* block = &first; block != nullptr && block->is_mapped();
       block = block->next) {
    append_block(*block, segment);
  }
  return segment;
}

}  // namespace

EngineSnapshot ClassicEngine::take_snapshot(std::optional<PoolId> pool) {
  std::vector<SnapshotSegment> segments;
  History::Position position;
  {
    Act act(*this, {});
    const DeviceIndex device = device_.properties().index;
    blocks_.for_each([&](const ClassicBlock* block) {
      const bool is_first = block->previous == nullptr || !block->previous->is_mapped();
      if (!is_first || !block->is_mapped()) return;
      const PrivatePool* owner = block->pool->owner();
      const PoolId its_pool = owner == nullptr ? PoolId{} : owner->id;
      if (pool && its_pool != *pool) return;
      segments.push_back(shown_from(*block, device));
    });
    ClassicBlock nothing;
    nothing.pool = &large_;
    note(TraceAction::kSnapshot, nothing, static_cast<size_t>(stats_.active_bytes.all.current));
    position = history().position();
  }
  std::sort(segments.begin(), segments.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  return {.segments = std::move(segments), .position = position};
}

Status ClassicEngine::annotate(DeviceAddress address, const std::string& said) {
  MutexLock lock(mutex_);
  const ClassicBlock* found = nullptr;
  blocks_.for_each([&](const ClassicBlock* block) {
    if (block->is_allocated() && block->address == address) found = block;
  });
  if (found == nullptr) return Status::invalid_argument(text("no live block starts at ", address));
  TraceEntry entry = make_entry(TraceAction::kAnnotate, *found, found->requested_bytes);
  if (const PrivatePool* owner = found->pool->owner()) entry.pool = owner->id;
  hooks_.record_annotation(entry, said);
  return {};
}

}  // namespace ashlar::classic
