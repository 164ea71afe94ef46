// SPDX-License-Identifier: Apache-2.0
//
// An index of one pool's free blocks of one size class (small or large), ordered by stream and
// size, and of its unmapped blocks, ordered by stream and address. Does not own the blocks. Guarded
// by the engine's lock.
#pragma once

#include <cstdint>

#include "engine/classic/classic_block.h"
#include "engine/size_policy.h"

namespace ashlar::classic {

struct PrivatePool;

// The parameters of a best-fit search.
struct FitQuery {
  StreamId stream;
  size_t bytes = 0;
  bool expandable = false;  // whether blocks of expandable segments qualify
};

class FreePool {
 public:
  // `usage`, the pool's entry in the engine's statistics, outlives the index.
  FreePool(bool is_small, PrivatePool* owner, UsageStats& usage)
      : is_small_(is_small), owner_(owner), usage_(usage) {}

  bool is_small() const { return is_small_; }
  PrivatePool* owner() const { return owner_; }  // null: the default pool
  UsageStats& usage() const { return usage_; }

  // Removes and returns the best fit: the smallest block that is large enough, and among equal
  // sizes the one at the lowest address. While that block is in an expandable segment, the search
  // moves on to the next block if the next block is smaller, where both sizes include the unmapped
  // space after the block. Null if no block is large enough, or if SizePolicy::may_serve rejects
  // the best fit.
  ClassicBlock* take_best_fit(const FitQuery& query, const SizePolicy& sizes);

  // Adds a free, mapped block, and stores the current search_count in it as the start of its age.
  void insert(ClassicBlock* block);
  void erase(ClassicBlock* block);
  // Adds an unmapped block.
  void insert_unmapped(ClassicBlock* block);
  void erase_unmapped(ClassicBlock* block);

  // Orders blocks by stream, then by size, then by address.
  struct BySize {
    bool operator()(const ClassicBlock* a, const ClassicBlock* b) const;
  };
  // Orders blocks by stream, then by address.
  struct ByAddress {
    bool operator()(const ClassicBlock* a, const ClassicBlock* b) const;
  };
  using Blocks = IntrusiveTree<ClassicBlock, BySize>;
  using UnmappedBlocks = IntrusiveTree<ClassicBlock, ByAddress>;

  const Blocks& blocks() const { return blocks_; }
  const UnmappedBlocks& unmapped() const { return unmapped_; }
  // The functions below search the blocks of one stream, and return null if none qualifies.
  ClassicBlock* first_unmapped(StreamId stream) const;
  static ClassicBlock* next_unmapped(const ClassicBlock* block);
  ClassicBlock* largest(StreamId stream) const;
  ClassicBlock* first_of_at_least(StreamId stream, size_t bytes) const;

  uint64_t search_count = 0;  // number of searches; advances only while garbage collection is on

 private:
  const bool is_small_;
  PrivatePool* const owner_;
  UsageStats& usage_;
  Blocks blocks_;
  UnmappedBlocks unmapped_;
};

}  // namespace ashlar::classic
