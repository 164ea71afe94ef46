// SPDX-License-Identifier: Apache-2.0
//
// Maps addresses to blocks, for callers that keep plain pointers. Thread safe and lock-free except
// for growth: insertion is one compare-and-swap; lookup and removal are plain loads and stores.
//
// A hash table with cache-line buckets and two candidate buckets per address. When both are full, a
// larger table is added for later insertions. Entries of older tables stay in place until they are
// removed, so entries never move under concurrent readers.
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

  // Inserts a block unless it is already present. REQUIRES: the caller owns the block.
  void insert(Block* block) {
    if (!block->in_block_table) [[unlikely]]
      insert_slow(block);
  }
  // Returns the inserted block that starts at `address`, whether allocated or not; null if none.
  Block* find(DeviceAddress address) const {
    const Entry* entry = find_entry(address);
    return entry == nullptr ? nullptr : entry->block.load(std::memory_order_acquire);
  }
  // Removes a block if it is present. REQUIRES: no concurrent insert or remove of this block.
  void remove(Block* block) {
    if (block->in_block_table) [[unlikely]]
      remove_slow(block);
  }

 private:
  struct Entry {
    std::atomic<uint64_t> key{0};  // the address; 0 if empty. Set before `block`, which may
                                   // therefore still be null
    std::atomic<Block*> block{nullptr};
  };
  struct alignas(64) Line {
    std::array<Entry, 4> entries;
  };
  struct Table {
    Table(size_t bits, const Table* older_table)
        : shift(64 - bits), older(older_table), lines(size_t{1} << bits) {}
    const size_t shift;
    const Table* const older;
    std::vector<Line> lines;

    Line& line(uint64_t hash) { return lines[hash >> shift]; }
    const Line& line(uint64_t hash) const { return lines[hash >> shift]; }
  };

  // The hashes that select a key's two candidate buckets. Only the upper bits need to be well
  // mixed, because `Table::line` ignores the others.
  static uint64_t first_hash(uint64_t key) { return hash_mix(key); }
  static uint64_t second_hash(uint64_t key) { return (key ^ key >> 21) * 0xD1B54A32D192ED03; }

  const Entry* find_entry(DeviceAddress address) const {
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
  void insert_slow(Block* block);
  void remove_slow(Block* block);
  void grow(const Table* full);

  std::atomic<Table*> newest_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Table>> tables_ ASHLAR_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace ashlar
