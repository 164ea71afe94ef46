// SPDX-License-Identifier: Apache-2.0
//
// Implements the slow paths of insertion and removal, and growth.
#include "engine/block_table.h"

#include "base/check.h"

namespace ashlar {
namespace {

constexpr size_t kInitialBits = 8;  // 1,024 blocks in 16 KiB
constexpr size_t kGrowthBits = 3;

}  // namespace

BlockTable::BlockTable() {
  MutexLock lock(mutex_);
  tables_.push_back(std::make_unique<Table>(kInitialBits, nullptr));
  newest_.store(tables_.back().get(), std::memory_order_release);
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): one probe sequence
void BlockTable::insert_slow(Block* block) {
  const uint64_t key = block->address.value();
  for (;;) {
    Table* table = newest_.load(std::memory_order_acquire);
    for (const uint64_t hash : {first_hash(key), second_hash(key)}) {
      for (Entry& entry : table->line(hash).entries) {
        uint64_t empty = 0;
        if (entry.key.load(std::memory_order_relaxed) != empty) continue;
        if (!entry.key.compare_exchange_strong(empty, key, std::memory_order_acq_rel)) continue;
        entry.block.store(block, std::memory_order_release);
        block->in_block_table = true;
        return;
      }
    }
    grow(table);
  }
}

void BlockTable::remove_slow(Block* block) {
  auto* entry = const_cast<Entry*>(find_entry(block->address));
  ASHLAR_DCHECK(entry != nullptr);
  block->in_block_table = false;
  entry->block.store(nullptr, std::memory_order_relaxed);
  entry->key.store(0, std::memory_order_release);
}

void BlockTable::grow(const Table* full) {
  MutexLock lock(mutex_);
  if (tables_.back().get() != full) return;  // another thread has added a table
  tables_.push_back(std::make_unique<Table>(64 - full->shift + kGrowthBits, full));
  newest_.store(tables_.back().get(), std::memory_order_release);
}

}  // namespace ashlar
