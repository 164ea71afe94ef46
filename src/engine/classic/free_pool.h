// SPDX-License-Identifier: Apache-2.0
//
// The free blocks of one size class of one pool, by stream and size; and the unmapped ones, by
// stream and address. An index only: segments' chains hold the blocks. Guarded by the engine's
// lock.
#pragma once

#include <cstdint>

#include "engine/classic/classic_block.h"
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
  // `usage` outlives it: what its pool has, in the engine's statistics.
  FreePool(bool is_small, PrivatePool* owner, UsageStats& usage)
      : is_small_(is_small), owner_(owner), usage_(usage) {}

  bool is_small() const { return is_small_; }
  PrivatePool* owner() const { return owner_; }  // null: the default pool
  UsageStats& usage() const { return usage_; }

  // Takes out the best fit: the smallest that is large enough, the lowest address among equals.
  // Null: none.
  ClassicBlock* take_best_fit(const Wanted& wanted, const SizePolicy& sizes);

  // Free and mapped blocks; `search_count` stamps their age.
  void insert(ClassicBlock* block);
  void erase(ClassicBlock* block);
  void insert_unmapped(ClassicBlock* block);
  void erase_unmapped(ClassicBlock* block);

  // By stream, then by size, then by address.
  struct BySize {
    bool operator()(const ClassicBlock* a, const ClassicBlock* b) const;
  };
  // By stream, then by address.
  struct ByAddress {
    bool operator()(const ClassicBlock* a, const ClassicBlock* b) const;
  };
  using Blocks = IntrusiveTree<ClassicBlock, BySize>;
  using UnmappedBlocks = IntrusiveTree<ClassicBlock, ByAddress>;

  const Blocks& blocks() const { return blocks_; }
  const UnmappedBlocks& unmapped() const { return unmapped_; }
  // Of one stream's blocks. Null: there is none.
  ClassicBlock* first_unmapped(StreamId stream) const;
  static ClassicBlock* next_unmapped(const ClassicBlock* block);
  ClassicBlock* largest(StreamId stream) const;
  ClassicBlock* first_of_at_least(StreamId stream, size_t bytes) const;

  uint64_t search_count = 0;  // advanced by searches while collection by age is on

 private:
  const bool is_small_;
  PrivatePool* const owner_;
  UsageStats& usage_;
  Blocks blocks_;
  UnmappedBlocks unmapped_;
};

}  // namespace ashlar::classic
