// Insert, find, take.
#include "engine/block_table.h"

namespace ashlar {

void BlockTable::insert(Block* block) {
  Shard& shard = shards_[shard_of(block->address)];
  MutexLock lock(shard.mutex);
  shard.blocks[block->address.value()] = block;
}

Block* BlockTable::find(DeviceAddress address) const {
  const Shard& shard = shards_[shard_of(address)];
  MutexLock lock(shard.mutex);
  const auto found = shard.blocks.find(address.value());
  return found == shard.blocks.end() ? nullptr : found->second;
}

Block* BlockTable::take(DeviceAddress address) {
  Shard& shard = shards_[shard_of(address)];
  MutexLock lock(shard.mutex);
  const auto found = shard.blocks.find(address.value());
  if (found == shard.blocks.end()) return nullptr;
  Block* block = found->second;
  shard.blocks.erase(found);
  return block;
}

}  // namespace ashlar
