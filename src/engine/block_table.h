// Which block an address stands for, for callers that keep plain addresses. Sharded, so that
// threads freeing different addresses rarely meet. Thread safe; never locked together with an
// engine.
#pragma once

#include <array>
#include <unordered_map>

#include "base/mutex.h"
#include "engine/block.h"

namespace ashlar {

class BlockTable {
 public:
  void insert(Block* block);
  // The block that starts there; null: none.
  Block* find(DeviceAddress address) const;
  // The same, and forgets it: of several threads that free an address, one gets the block.
  Block* take(DeviceAddress address);

 private:
  static constexpr size_t kShardCount = 64;
  struct alignas(64) Shard {
    mutable Mutex mutex;
    std::unordered_map<uint64_t, Block*> blocks ASHLAR_GUARDED_BY(mutex);
  };
  // Blocks are multiples of 512 B: the low bits say nothing, and a multiplication mixes the rest.
  static size_t shard_of(DeviceAddress address) {
    return ((address.value() >> 9) * 0x9e3779b97f4a7c15ULL) >> 58;
  }

  std::array<Shard, kShardCount> shards_;
};

}  // namespace ashlar
