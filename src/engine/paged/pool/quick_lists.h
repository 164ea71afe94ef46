// SPDX-License-Identifier: Apache-2.0
//
// Recently freed blocks in free lists of one size each, since most programs soon request the same
// size again. Small and large blocks have separate lists. The blocks are merged with their
// neighbours when a large request finds no fitting block here, when a small request finds no
// fitting free block at all, and before plans, trims, snapshots and checkpoints. Not thread safe:
// guarded by the arena's lock.
#pragma once

#include <array>
#include <bit>
#include <memory>

#include "base/align.h"
#include "base/hash_mix.h"
#include "base/host_memory.h"
#include "engine/paged/pool/size_classes.h"
#include "engine/paged/pool/view.h"

namespace ashlar::paged {

struct QuickList {
  PagedBlock* first = nullptr;
  // The size of each block; 0 if the list has been empty since the last flush. Kept here because
  // the blocks themselves are rarely in a CPU cache.
  size_t bytes = 0;
};

class QuickLists {
 public:
  // Returns the head of the list that serves `bytes`, the size of a request or of a block; the head
  // is null if the list is empty. A caller that takes the block stores its successor in the
  // returned reference.
  PagedBlock*& head_for(size_t bytes) {
    QuickList& list = lists_[index_of(bytes)];
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
  // Adds a free block. Returns false if no list accepts the block's size, if blocks of another size
  // are in that list, or if host memory is exhausted; the caller then merges the block. A block of
  // a view for small blocks may be large if the pool has no_split; no list accepts it, because it
  // must not serve large requests.
  bool put(PagedBlock* block) noexcept {
    if (is_small(block->bytes) != block->is_small) return false;
    const size_t index = index_of(block->bytes);
    if (lists_[index].bytes != block->bytes && !claim_list(index, block->bytes)) return false;
    QuickList& list = lists_[index];
    block->state = BlockState::kQuick;
    block->list_next = list.first;
    list.first = block;
    return true;
  }
  // Passes every small, or every large, block to `merge` and empties these lists.
  template <typename Merge>
  void flush(bool is_small, const Merge& merge) {
    const size_t begin = is_small ? 0 : kLargeBegin / 64;
    const size_t end = is_small ? kLargeBegin / 64 : marked_.size();
    for (size_t word = begin; word < end; ++word) {
      for (uint64_t& bits = marked_[word]; bits != 0; bits &= bits - 1) {
        QuickList& list = lists_[64 * word + static_cast<size_t>(std::countr_zero(bits))];
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
  // Number of lists that all large sizes share. Compared with 64, the recorded runs reserve 0.07 %
  // more memory with 32 and 0.07 % less with 128 (docs/internals/experiments/paged_engine.md).
  static constexpr size_t kLargeListCount = 64;
  static constexpr size_t kLargeBegin = align_up(SizeClasses::kCount, 64);
  static constexpr size_t kListCount = align_up(kLargeBegin + kLargeListCount, 64);
  static size_t index_of(size_t bytes) {
    if (is_small(bytes)) return SizeClasses::class_of(bytes);
    const size_t units = (bytes - 1) / kMinBlockBytes + 1;
    return kLargeBegin + (hash_mix(units) >> 58);
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
  bool claim_list(size_t index, size_t bytes) {
    if (lists_[index].first != nullptr || bytes != SizeClasses::block_bytes(bytes)) return false;
    if (created_lists_ == nullptr && !create_lists()) return false;
    lists_[index].bytes = bytes;
    marked_[index / 64] |= uint64_t{1} << (index % 64);
    return true;
  }

  [[gnu::noinline]] bool create_lists() {
    created_lists_ = catch_bad_alloc([] { return std::make_unique<QuickList[]>(kListCount); });
    if (created_lists_ != nullptr) lists_ = created_lists_.get();
    return created_lists_ != nullptr;
  }

  // Empty lists, shared by all objects that have not created lists. Never written.
  static inline constinit std::array<QuickList, kListCount> no_lists{};

  QuickList* lists_ = no_lists.data();
  std::unique_ptr<QuickList[]> created_lists_;
  std::array<uint64_t, kListCount / 64> marked_{};  // one bit per list: whether it is in use
  PagedBlock* none_ = nullptr;  // always null; the head for sizes without a list
};

}  // namespace ashlar::paged
