// SPDX-License-Identifier: Apache-2.0
//
// Tracks the reported ranges, and checks allocations against them.
#include "mapping_observer.h"

#include <gtest/gtest.h>

#include <set>

namespace ashlar::stress {

MappingObserver::MappingObserver(Engine& engine) : engine_(engine) {
  RemapObserver observer;
  observer.after_map = [this](AddressRange range) { on_mapped(range); };
  observer.before_unmap = [this](AddressRange range) { on_unmapping(range); };
  EXPECT_TRUE(engine_.add_remap_observer(std::move(observer)).ok());
}

void MappingObserver::on_mapped(AddressRange range) {
  bool is_turn = false;
  {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(reported_.emplace(range.begin, range.bytes).second) << "mapped twice";
    is_turn = ++mapped_count_ % 16 == 0;
  }
  if (is_turn) call_engine();
}

void MappingObserver::on_unmapping(AddressRange range) {
  EXPECT_TRUE(is_mapped(range.begin)) << "reported too late";
  const std::lock_guard lock(mutex_);
  const auto found = reported_.find(range.begin);
  ASSERT_NE(found, reported_.end()) << "never reported as mapped";
  EXPECT_EQ(found->second, range.bytes);
  reported_.erase(found);
}

// Calls the engine from within a notification, as observers may. Resulting notifications are
// delivered recursively.
void MappingObserver::call_engine() {
  if (std::exchange(is_calling_, true)) return;
  const Result<Block*> block = engine_.allocate({1, kDefaultStream});
  if (block.ok()) engine_.free_quietly(*block);
  is_calling_ = false;
}

void MappingObserver::expect_reported(const Block& block) const {
  {
    const std::lock_guard lock(mutex_);
    if (covers({block.address, block.bytes})) return;
  }
  EXPECT_NE(engine_.block_memory(&block).origin, BlockMemory::Origin::kExtents)
      << "the block at " << block.address.value() << " is in unreported memory";
}

bool MappingObserver::covers(AddressRange range) const {
  auto next = reported_.upper_bound(range.begin);
  if (next == reported_.begin()) return false;
  --next;
  DeviceAddress reported_end = next->first + next->second;
  while (reported_end < range.end()) {
    ++next;
    if (next == reported_.end() || next->first != reported_end) return false;
    reported_end = next->first + next->second;
  }
  return reported_end > range.begin;
}

void MappingObserver::expect_matches_device() const {
  const size_t granule_bytes = engine_.device().properties().granularity_bytes;
  std::set<DeviceAddress> reported;
  for (const auto& [begin, bytes] : reported_) {
    for (size_t at = 0; at < bytes; at += granule_bytes) reported.insert(begin + at);
  }
  std::set<DeviceAddress> mapped;
  for (const ExpandableSegmentStats& view : engine_.expandable_segments()) {
    for (size_t at = 0; at < view.reserved.bytes; at += granule_bytes) {
      if (is_mapped(view.reserved.begin + at)) mapped.insert(view.reserved.begin + at);
    }
  }
  EXPECT_EQ(reported, mapped);
}

bool MappingObserver::is_mapped(DeviceAddress at) const {
  const Result<AddressDescription> found = engine_.device().describe(at);
  return found.ok() && found->kind == MemoryKind::kDevice;
}

}  // namespace ashlar::stress
