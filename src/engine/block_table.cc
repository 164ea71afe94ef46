// SPDX-License-Identifier: Apache-2.0
//
// Entering, taking out, and growing.
#include "engine/block_table.h"

#include "base/check.h"

namespace ashlar {
namespace {

constexpr size_t kFirstBits = 8;  // 1,024 blocks in 16 KiB
constexpr size_t kMoreBits = 3;

}  // namespace

BlockTable::BlockTable() {
  MutexLock lock(mutex_);
  tables_.push_back(std::make_unique<Table>(kFirstBits, nullptr));
  newest_.store(tables_.back().get(), std::memory_order_release);
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): three loops, one thought
void BlockTable::enter(Block* block) {
  const uint64_t key = block->address.value();
  for (;;) {
    Table* table = newest_.load(std::memory_order_acquire);
    for (const uint64_t hash : {first_hash(key), second_hash(key)}) {
      for (Entry& entry : table->line(hash).entries) {
        uint64_t nobody = 0;
        if (entry.key.load(std::memory_order_relaxed) != nobody) continue;
        if (!entry.key.compare_exchange_strong(nobody, key, std::memory_order_acq_rel)) continue;
        entry.block.store(block, std::memory_order_release);
        block->is_listed = true;
        return;
      }
    }
    grow(table);
  }
}

void BlockTable::take_out(Block* block) {
  auto* entry = const_cast<Entry*>(entry_of(block->address));
  ASHLAR_DCHECK(entry != nullptr);
  block->is_listed = false;
  entry->block.store(nullptr, std::memory_order_relaxed);
  entry->key.store(0, std::memory_order_release);
}

void BlockTable::grow(const Table* full) {
  MutexLock lock(mutex_);
  if (tables_.back().get() != full) return;  // somebody else did
  tables_.push_back(std::make_unique<Table>(64 - full->shift + kMoreBits, full));
  newest_.store(tables_.back().get(), std::memory_order_release);
}

}  // namespace ashlar
