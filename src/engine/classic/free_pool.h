// The free blocks of one size class of one pool, by stream and size; and the unmapped ones, by
// stream and address. An index only: segments' chains hold the blocks. Guarded by the engine's
// lock.
#pragma once

#include <cstdint>
#include <set>

#include "engine/block.h"
#include "engine/size_policy.h"

namespace ashlar::classic {

struct PrivatePool;

// What a search wants.
struct Wanted {
  StreamId stream;
  size_t bytes = 0;
  bool expandable = false;  // expandable blocks may be taken
};

class FreePool {
 public:
  FreePool(bool is_small, PrivatePool* owner) : is_small_(is_small), owner_(owner) {}

  bool is_small() const { return is_small_; }
  PrivatePool* owner() const { return owner_; }  // null: the default pool

  // Takes out the best fit: the smallest that is large enough, the lowest address among equals.
  // Null: none.
  Block* take_best_fit(const Wanted& wanted, const SizePolicy& sizes);

  // Free and mapped blocks; `search_count` stamps their age.
  void insert(Block* block);
  void erase(Block* block);
  void insert_unmapped(Block* block);
  void erase_unmapped(Block* block);

  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };
  struct ByAddress {
    bool operator()(const Block* a, const Block* b) const;
  };
  using Blocks = std::set<Block*, BySize>;
  using UnmappedBlocks = std::set<Block*, ByAddress>;

  const Blocks& blocks() const { return blocks_; }
  const UnmappedBlocks& unmapped() const { return unmapped_; }
  // The first unmapped block of the stream, or the end.
  UnmappedBlocks::const_iterator first_unmapped(StreamId stream) const;
  // The largest free block of the stream, or the end.
  Blocks::const_iterator largest(StreamId stream) const;
  Blocks::const_iterator first_of_at_least(StreamId stream, size_t bytes) const;

  uint64_t search_count = 0;  // advanced by searches while collection by age is on

 private:
  const bool is_small_;
  PrivatePool* const owner_;
  Blocks blocks_;
  UnmappedBlocks unmapped_;
};

}  // namespace ashlar::classic
