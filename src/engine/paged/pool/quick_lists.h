// SPDX-License-Identifier: Apache-2.0
//
// Recently freed blocks in free lists of one size each, since most programs soon request the same
// size again. The blocks are merged with their neighbours when a large request finds no fitting
// block here, when a small request finds no fitting free block at all, and before plans, trims,
// snapshots and checkpoints. Not thread safe: guarded by the arena's lock.
#pragma once

#include <array>
#include <bit>

#include "base/align.h"
#include "base/hash_mix.h"
#include "engine/paged/pool/size_classes.h"
#include "engine/paged/pool/view.h"

namespace ashlar::paged {

class QuickLists {
 public:
  // Returns the head of the list that serves `bytes`, the size of a request or of a block; the head
  // is null if the list is empty. A caller that takes the block stores its successor in the
  // returned reference.
  PagedBlock*& head_for(size_t bytes) {
    List& list = lists_[index_of(bytes)];
    if (is_small(bytes)) return list.first != nullptr ? list.first : larger_for(bytes);
    return list.bytes == SizeClasses::block_bytes(bytes) ? list.first : none_;
  }
  // Removes and returns a fitting block; null if there is none. The block keeps the state kQuick.
  PagedBlock* take(size_t bytes) {
    PagedBlock*& head = head_for(bytes);
    PagedBlock* block = head;
    if (block != nullptr) head = block->list_next;
    return block;
  }
  // Adds a free block. Returns false if no list accepts the block's size, or if blocks of another
  // size are in that list; the caller then merges the block.
  bool put(PagedBlock* block) {
    List& list = lists_[index_of(block->bytes)];
    if (list.bytes != block->bytes && !claim_list(list, block->bytes)) return false;
    block->state = BlockState::kQuick;
    block->list_next = list.first;
    list.first = block;
    return true;
  }
  // Passes every block to `merge` and empties the lists.
  template <typename Merge>
  void flush(const Merge& merge) {
    for (size_t word = 0; word < marked_.size(); ++word) {
      for (uint64_t& bits = marked_[word]; bits != 0; bits &= bits - 1) {
        List& list = lists_[64 * word + static_cast<size_t>(std::countr_zero(bits))];
        for (PagedBlock *block = list.first, *next = nullptr; block != nullptr; block = next) {
          next = block->list_next;
          block->state = BlockState::kFree;
          merge(block);
        }
        list = {};
      }
    }
  }

 private:
  struct List {
    PagedBlock* first = nullptr;
    // The size of each block; 0 if the list has been empty since the last flush. Kept here because
    // the blocks themselves are rarely in a CPU cache.
    size_t bytes = 0;
  };
  // Number of lists that all large sizes share. Compared with 64, the recorded runs reserve 0.07 %
  // more memory with 32 and 0.07 % less with 128 (docs/internals/experiments/paged_engine.md).
  static constexpr size_t kLargeListCount = 64;
  static constexpr size_t kListCount = align_up(kLargeListCount + SizeClasses::kCount, 64);
  static size_t index_of(size_t bytes) {
    if (is_small(bytes)) return SizeClasses::class_of(bytes);
    const size_t units = (bytes - 1) / kMinBlockBytes + 1;
    return SizeClasses::kCount + (hash_mix(units) >> 58);
  }
  // A small request without a block of its size takes one of the next two sizes. The waste of at
  // most an eighth costs less than splitting a block and merging it again. The recorded runs
  // reserve 1.0280 instead of 1.0278 times their peak of live bytes (benchmarks/policies.py).
  PagedBlock*& larger_for(size_t bytes) {
    if (bytes <= SizeClasses::kExactBytes) return none_;
    const size_t next = SizeClasses::class_of(bytes) + 1;
    if (next < SizeClasses::kCount && lists_[next].first != nullptr) return lists_[next].first;
    return next + 1 < SizeClasses::kCount ? lists_[next + 1].first : none_;
  }
  // Each small size has its own list, so sizes need not be compared. Returns false for 0.
  static bool is_small(size_t bytes) { return bytes - 1 < kSmallLimitBytes; }
  bool claim_list(List& list, size_t bytes) {
    if (list.first != nullptr || bytes != SizeClasses::block_bytes(bytes)) return false;
    list.bytes = bytes;
    const auto index = static_cast<size_t>(&list - lists_.data());
    marked_[index / 64] |= uint64_t{1} << (index % 64);
    return true;
  }

  std::array<List, kListCount> lists_{};
  std::array<uint64_t, kListCount / 64> marked_{};  // one bit per list: whether it is in use
  PagedBlock* none_ = nullptr;  // always null; the head for sizes without a list
};

}  // namespace ashlar::paged
