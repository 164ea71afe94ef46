// SPDX-License-Identifier: Apache-2.0
//
// Which block an address stands for, for callers that keep plain addresses. Thread safe, and nobody
// waits in it: a block is entered by one atomic exchange, found and taken out without any.
//
// A hash whose buckets are lines of the cache, where an address may be in either of two. When both
// are full, a larger table is made for whatever comes from then on; what older ones have stays
// there until it is taken out, so that nothing ever moves while others look.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "base/hash_mix.h"
#include "base/mutex.h"
#include "engine/block.h"

namespace ashlar {

class BlockTable {
 public:
  BlockTable();
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // It may be in here already. REQUIRES: the block is the caller's.
  void insert(Block* block) {
    if (!block->is_listed) [[unlikely]]
      enter(block);
  }
  // The block that starts there, allocated or not; null: none.
  Block* find(DeviceAddress address) const {
    const Entry* entry = entry_of(address);
    return entry == nullptr ? nullptr : entry->block.load(std::memory_order_acquire);
  }
  // It may not be in here. REQUIRES: nobody else inserts or removes it.
  void remove(Block* block) {
    if (block->is_listed) [[unlikely]]
      take_out(block);
  }

 private:
  struct Entry {
    std::atomic<uint64_t> key{0};  // the address; 0: nobody's. Who writes it has the other, too
    std::atomic<Block*> block{nullptr};
  };
  struct alignas(64) Line {
    std::array<Entry, 4> entries;
  };
  struct Table {
    Table(size_t bits, const Table* before)
        : shift(64 - bits), older(before), lines(size_t{1} << bits) {}
    const size_t shift;
    const Table* const older;
    std::vector<Line> lines;

    Line& line(uint64_t hash) { return lines[hash >> shift]; }
    const Line& line(uint64_t hash) const { return lines[hash >> shift]; }
  };

  // Their upper bits are what counts.
  static uint64_t first_hash(uint64_t key) { return hash_mix(key); }
  static uint64_t second_hash(uint64_t key) { return (key ^ key >> 21) * 0xD1B54A32D192ED03; }

  const Entry* entry_of(DeviceAddress address) const {
    const uint64_t key = address.value();
    const Table* table = newest_.load(std::memory_order_acquire);
    for (; table != nullptr; table = table->older) {
      for (const uint64_t hash : {first_hash(key), second_hash(key)}) {
        for (const Entry& entry : table->line(hash).entries) {
          if (entry.key.load(std::memory_order_acquire) == key) return &entry;
        }
      }
    }
    return nullptr;
  }
  void enter(Block* block);
  void take_out(Block* block);
  void grow(const Table* full);

  std::atomic<Table*> newest_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Table>> tables_ ASHLAR_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace ashlar
