// SPDX-License-Identifier: Apache-2.0
//
// Blocks that were freed a moment ago, each in the list of its very size: most programs ask for the
// same sizes again, or, small ones, about the same. They are not merged with their neighbours until
// a request comes that none of them fits, and for which, if it is a small one, nothing else is
// free. Not thread safe.
#pragma once

#include <array>
#include <bit>

#include "base/align.h"
#include "base/hash_mix.h"
#include "engine/paged/size_classes.h"
#include "engine/paged/view.h"

namespace ashlar::paged {

class QuickLists {
 public:
  // Where the block for a request, or for a block's size, is: whoever takes it puts the next one
  // there. Null: there is none.
  PagedBlock*& head_for(size_t bytes) {
    List& own = lists_[index_of(bytes)];
    if (is_small(bytes)) return own.first != nullptr ? own.first : larger_for(bytes);
    return own.bytes == SizeClasses::block_bytes(bytes) ? own.first : none_;
  }
  // What becomes of it is the caller's to say.
  PagedBlock* take(size_t bytes) {
    PagedBlock*& head = head_for(bytes);
    PagedBlock* block = head;
    if (block != nullptr) head = block->list_next;
    return block;
  }
  // False: there is no list for blocks of that size, or another has it, and the block must be
  // merged instead.
  bool put(PagedBlock* block) {
    List& list = lists_[index_of(block->bytes)];
    if (list.bytes != block->bytes && !take_over(list, block->bytes)) return false;
    block->state = BlockState::kQuick;
    block->list_next = list.first;
    list.first = block;
    return true;
  }
  // Hands every block to `merge`, and has none afterwards.
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
    size_t bytes = 0;  // of each; 0: it had none since all were merged. Blocks are not asked, which
                       // are in no cache
  };
  static constexpr size_t kLargeCount = 64;  // sizes share these
  static constexpr size_t kListCount = align_up(kLargeCount + SizeClasses::kCount, 64);
  static size_t index_of(size_t bytes) {
    if (is_small(bytes)) return SizeClasses::class_of(bytes);
    const size_t units = (bytes - 1) / kMinBlockBytes + 1;
    return SizeClasses::kCount + (hash_mix(units) >> 58);
  }
  // Where a small block of its very size is not there, the next two sizes will do: an eighth more
  // at most is less than it costs to cut one, and to merge it again.
  PagedBlock*& larger_for(size_t bytes) {
    if (bytes <= SizeClasses::kExactBytes) return none_;
    const size_t next = SizeClasses::class_of(bytes) + 1;
    if (next < SizeClasses::kCount && lists_[next].first != nullptr) return lists_[next].first;
    return next + 1 < SizeClasses::kCount ? lists_[next + 1].first : none_;
  }
  // These have lists of their own, which need not be asked for whom. 0 is none of them.
  static bool is_small(size_t bytes) { return bytes - 1 < kSmallLimitBytes; }
  bool take_over(List& list, size_t bytes) {
    if (list.first != nullptr || bytes != SizeClasses::block_bytes(bytes)) return false;
    list.bytes = bytes;
    const auto index = static_cast<size_t>(&list - lists_.data());
    marked_[index / 64] |= uint64_t{1} << (index % 64);
    return true;
  }

  std::array<List, kListCount> lists_{};
  std::array<uint64_t, kListCount / 64> marked_{};  // a bit for each list
  PagedBlock* none_ = nullptr;                      // never any other
};

}  // namespace ashlar::paged
