// Walking down the tree, and making what is missing on the way.
#include "engine/block_table.h"

#include "base/check.h"

namespace ashlar {
namespace {

// The table behind an entry; made if there is none. Of several threads that make it, one wins.
template <typename Entry>
Entry* get_or_make(std::atomic<Entry*>& place) {
  Entry* there = place.load(std::memory_order_acquire);
  if (there != nullptr) return there;
  auto made = std::make_unique<Entry>();
  if (!place.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel)) return there;
  return made.release();
}

}  // namespace

BlockTable::BlockTable() : root_(std::make_unique<Root>()) {}

BlockTable::~BlockTable() {
  for (auto& region_place : *root_) {
    const std::unique_ptr<Region> region(region_place.load(std::memory_order_relaxed));
    if (region == nullptr) continue;
    for (auto& group_place : region->groups) {
      const std::unique_ptr<Group> group(group_place.load(std::memory_order_relaxed));
      if (group == nullptr) continue;
      for (auto& leaf_place : *group) {
        const std::unique_ptr<Leaf> leaf(leaf_place.load(std::memory_order_relaxed));
      }
    }
  }
}

// 4,096 of them are 64 TiB: more than any process has mapped of devices.
BlockTable::Region& BlockTable::region_of(DeviceAddress address) {
  const uint64_t key = address.value() >> 34;
  auto made = std::make_unique<Region>(key);
  for (size_t i = 0; i < root_->size(); ++i) {
    std::atomic<Region*>& place = (*root_)[(key + i) % root_->size()];
    Region* there = place.load(std::memory_order_acquire);
    const bool is_mine = there == nullptr && place.compare_exchange_strong(
                                                 there, made.get(), std::memory_order_acq_rel);
    if (is_mine) return *made.release();
    if (there->key == key) return *there;
  }
  check_failed("a table of blocks has room", __FILE__, __LINE__);
}

std::atomic<Block*>& BlockTable::make_place(DeviceAddress address) {
  Group* group = get_or_make(region_of(address).groups[bits(address, 21, 8192)]);
  Leaf* leaf = get_or_make((*group)[bits(address, 15, 64)]);
  return (*leaf)[bits(address, 9, 64)];
}

// --- addresses that the tree has no place for ----------------------------------------------------

void BlockTable::insert_odd(Block* block) {
  MutexLock lock(mutex_);
  odd_[block->address.value()] = block;
}

Block* BlockTable::find_odd(DeviceAddress address) const {
  MutexLock lock(mutex_);
  const auto found = odd_.find(address.value());
  return found == odd_.end() ? nullptr : found->second;
}

Block* BlockTable::take_odd(DeviceAddress address) {
  MutexLock lock(mutex_);
  const auto found = odd_.find(address.value());
  if (found == odd_.end()) return nullptr;
  Block* block = found->second;
  odd_.erase(found);
  return block;
}

}  // namespace ashlar
