// Which block an address stands for, for callers that keep plain addresses. A tree of tables by the
// bits of the address, as a processor finds its pages: no lock, no search, and a cache line or two
// for blocks that are used over and over. Thread safe.
//
//   bits from 34 on: root, hashed, 16 GiB each
//   bits 21–33: 2 MiB each    15–20: 32 KiB each    9–14: 512 B each
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <unordered_map>

#include "base/mutex.h"
#include "engine/block.h"

namespace ashlar {

class BlockTable {
 public:
  BlockTable();
  ~BlockTable();
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  void insert(Block* block) {
    const DeviceAddress address = block->address;
    if (is_odd(address)) return insert_odd(block);
    std::atomic<Block*>* place = place_of(address);
    if (place == nullptr) place = &make_place(address);
    place->store(block, std::memory_order_release);
  }
  // The block that starts there; null: none.
  Block* find(DeviceAddress address) const {
    if (is_odd(address)) return find_odd(address);
    const std::atomic<Block*>* place = place_of(address);
    return place == nullptr ? nullptr : place->load(std::memory_order_acquire);
  }
  // The same, and forgets it. Several threads that free an address at once may all get the block,
  // since an exchange would cost more than all the rest: the engine, under its lock, takes it from
  // one of them.
  Block* take(DeviceAddress address) {
    if (is_odd(address)) return take_odd(address);
    std::atomic<Block*>* place = place_of(address);
    if (place == nullptr) return nullptr;
    Block* block = place->load(std::memory_order_acquire);
    place->store(nullptr, std::memory_order_release);
    return block;
  }

 private:
  template <typename Entry, size_t kCount>
  using Table = std::array<std::atomic<Entry*>, kCount>;
  using Leaf = Table<Block, 64>;
  using Group = Table<Leaf, 64>;
  struct Region {
    explicit Region(uint64_t its_key) : key(its_key) {}
    const uint64_t key;  // the bits of its addresses from 34 on
    Table<Group, 8192> groups{};
  };
  using Root = Table<Region, 4096>;

  // The tree has no place for it: a pool's own source may give such addresses.
  static bool is_odd(DeviceAddress address) { return (address.value() & 511) != 0; }
  static size_t bits(DeviceAddress address, int from, size_t count) {
    return (address.value() >> from) & (count - 1);
  }
  Region* find_region(DeviceAddress address) const {
    const uint64_t key = address.value() >> 34;
    for (size_t i = 0; i < root_->size(); ++i) {
      Region* region = (*root_)[(key + i) % root_->size()].load(std::memory_order_acquire);
      if (region == nullptr || region->key == key) return region;
    }
    return nullptr;
  }
  Region& region_of(DeviceAddress address);
  // Null: nothing was ever inserted near there.
  std::atomic<Block*>* place_of(DeviceAddress address) const {
    Region* region = find_region(address);
    if (region == nullptr) return nullptr;
    Group* group = region->groups[bits(address, 21, 8192)].load(std::memory_order_acquire);
    if (group == nullptr) return nullptr;
    Leaf* leaf = (*group)[bits(address, 15, 64)].load(std::memory_order_acquire);
    return leaf == nullptr ? nullptr : &(*leaf)[bits(address, 9, 64)];
  }
  std::atomic<Block*>& make_place(DeviceAddress address);
  void insert_odd(Block* block);
  Block* find_odd(DeviceAddress address) const;
  Block* take_odd(DeviceAddress address);

  const std::unique_ptr<Root> root_;
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, Block*> odd_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
