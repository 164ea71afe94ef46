// SPDX-License-Identifier: Apache-2.0
//
// The merged free blocks of a sub-arena, in lists by size. The sizes of one list differ by at most
// a sixteenth, and a bitmap marks the lists that are not empty. Insert and erase take constant
// time, as does each step of a search.
//
// The heads of the lists take more than a kilobyte, and a program may have thousands of streams
// with a few blocks each. Therefore, until `create_lists` is called, the lists are linked into one
// chain in the order of their sizes, and `insert` searches that chain. Searches visit the same
// blocks in the same order before and after `create_lists`.
//
// Not thread safe: guarded by the arena's lock.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/paged/pool/view.h"
#include "engine/size_policy.h"

namespace ashlar::paged {

class FreeRanges {
 public:
  // The blocks that a visitor still accepts: any block, only blocks of the first list, or none.
  enum class Next { kAny, kNotLarger, kNone };

  // Prepares for blocks of up to `bytes`. Throws std::bad_alloc, without effect, if there is no
  // memory.
  void reserve(size_t bytes) {
    const size_t count = std::max(list_count_, list_of(bytes) + 1);
    if (lists_ != nullptr) lists_->heads.resize(count);
    list_count_ = count;
  }
  // Creates the heads of the lists, so that `insert` takes constant time for any number of blocks.
  // Does nothing if they exist, or if `reserve` was never called. Throws std::bad_alloc, without
  // effect, if there is no memory.
  void create_lists() {
    if (lists_ == nullptr && list_count_ != 0) [[unlikely]]
      divide_chain();
  }
  // REQUIRES: `reserve` was called for the block's size or a larger one.
  void insert(PagedBlock* block) noexcept {
    const size_t list = list_of(block->bytes);
    ASHLAR_DCHECK(list < list_count_);
    if (lists_ == nullptr) return insert_into_chain(block, list);
    PagedBlock*& head = lists_->heads[list];
    block->list_previous = nullptr;
    block->list_next = head;
    if (head != nullptr) head->list_previous = block;
    head = block;
    lists_->mark(list);
  }
  // REQUIRES: the block was inserted, and its size has not changed since.
  void erase(PagedBlock* block) noexcept {
    if (block->list_next != nullptr) block->list_next->list_previous = block->list_previous;
    if (block->list_previous != nullptr) {
      block->list_previous->list_next = block->list_next;
      return;
    }
    if (lists_ == nullptr) {
      chain_ = block->list_next;
      return;
    }
    const size_t list = list_of(block->bytes);
    lists_->heads[list] = block->list_next;
    if (block->list_next == nullptr) lists_->unmark(list);
  }

  // Visits blocks of at least `bytes`, roughly in order of size, until `visit` returns kNone. The
  // visitor may erase the block it is given. The first list also holds blocks that are too small,
  // each of which costs a CPU cache miss. Therefore, after a few such blocks, the larger lists are
  // visited before the remainder of the first list. If the visitor returns kNotLarger for a larger
  // block, only a few blocks of that remainder are visited.
  template <typename Visit>
  void visit_at_least(size_t bytes, const Visit& visit) const {
    const size_t first = list_of(bytes);
    if (first >= list_count_) return;  // no view is that large
    PagedBlock* rest = lists_ != nullptr ? lists_->heads[first] : first_in_chain(first);
    for (int too_small = 0; is_in_list(rest, first) && too_small < kMaxTooSmall;) {
      PagedBlock* block = rest;
      rest = block->list_next;
      if (block->bytes < bytes) {
        ++too_small;
      } else if (visit(block) == Next::kNone) {
        return;
      }
    }
    const Next wanted = visit_lists(first + 1, visit);
    if (wanted == Next::kNone) return;
    for (int seen = 0; is_in_list(rest, first); ++seen) {
      if (wanted == Next::kNotLarger && seen == kMaxTooSmall) return;
      PagedBlock* block = rest;
      rest = block->list_next;
      if (block->bytes >= bytes && visit(block) == Next::kNone) return;
    }
  }

 private:
  template <typename Visit>
  Next visit_lists(size_t first, const Visit& visit) const {
    if (lists_ == nullptr) return visit_chain(first_in_chain(first), visit);
    for (size_t list = lists_->next_occupied(first); list < kMaxListCount;
         list = lists_->next_occupied(list + 1)) {
      if (const Next wanted = visit_chain(lists_->heads[list], visit); wanted != Next::kAny) {
        return wanted;
      }
    }
    return Next::kAny;
  }
  template <typename Visit>
  static Next visit_chain(PagedBlock* block, const Visit& visit) {
    for (PagedBlock* next = nullptr; block != nullptr; block = next) {
      next = block->list_next;
      if (const Next wanted = visit(block); wanted != Next::kAny) return wanted;
    }
    return Next::kAny;
  }

  // The resolution of the lists. Compared with 16, the recorded runs reserve 0.17 % more memory
  // with 8 and 0.04 % more with 32 (docs/internals/experiments/paged_engine.md).
  static constexpr size_t kListsPerPowerOfTwo = 16;
  // `list_of(SIZE_MAX) + 1`, because a request may exceed the memory of any device.
  static constexpr size_t kMaxListCount =
      kListsPerPowerOfTwo * (std::bit_width(SIZE_MAX / kMinBlockBytes) - 3);
  // The number of too small blocks of the first list that `visit_at_least` visits before the larger
  // lists; also the number of remaining blocks that it visits after kNotLarger. Compared with 4,
  // the recorded runs reserve 0.04 % less memory with 2 and the same with 8, which is within noise.
  static constexpr int kMaxTooSmall = 4;

  static size_t list_of(size_t bytes) {
    const size_t units = bytes / kMinBlockBytes;
    if (units < kListsPerPowerOfTwo) return units;
    const auto shift = static_cast<size_t>(std::bit_width(units)) - 5;
    return (shift + 1) * kListsPerPowerOfTwo + ((units >> shift) - kListsPerPowerOfTwo);
  }
  struct Lists {
    explicit Lists(size_t count) : heads(count) {}
    void mark(size_t list) { occupied[list / 64] |= uint64_t{1} << (list % 64); }
    void unmark(size_t list) { occupied[list / 64] &= ~(uint64_t{1} << (list % 64)); }
    size_t next_occupied(size_t list) const {
      for (size_t word = list / 64; word < occupied.size(); ++word) {
        uint64_t bits = occupied[word];
        if (word == list / 64) bits &= ~uint64_t{0} << (list % 64);
        if (bits != 0) return word * 64 + static_cast<size_t>(std::countr_zero(bits));
      }
      return kMaxListCount;
    }

    std::vector<PagedBlock*> heads;  // indexed by list
    std::array<uint64_t, kMaxListCount / 64> occupied{};
  };

  // Returns whether `block`, the successor of a block of the list, is in the list too. In the
  // chain, it may be the first block of the next list.
  bool is_in_list(const PagedBlock* block, size_t list) const {
    return block != nullptr && (lists_ != nullptr || list_of(block->bytes) == list);
  }
  // Returns the first block of the chain in this list or a later one.
  PagedBlock* first_in_chain(size_t list) const {
    PagedBlock* block = chain_;
    while (block != nullptr && list_of(block->bytes) < list) block = block->list_next;
    return block;
  }
  void insert_into_chain(PagedBlock* block, size_t list) noexcept {
    PagedBlock* before = nullptr;
    PagedBlock* next = chain_;
    while (next != nullptr && list_of(next->bytes) < list) {
      before = next;
      next = next->list_next;
    }
    block->list_previous = before;
    block->list_next = next;
    if (next != nullptr) next->list_previous = block;
    (before != nullptr ? before->list_next : chain_) = block;
  }
  // Cuts the chain into the lists that it consists of.
  [[gnu::noinline]] void divide_chain() {
    lists_ = std::make_unique<Lists>(list_count_);
    PagedBlock* next = std::exchange(chain_, nullptr);
    for (PagedBlock* before = nullptr; next != nullptr;) {
      PagedBlock* block = std::exchange(next, next->list_next);
      const size_t list = list_of(block->bytes);
      if (before == nullptr || list_of(before->bytes) != list) {
        if (before != nullptr) before->list_next = nullptr;
        block->list_previous = nullptr;
        lists_->heads[list] = block;
        lists_->mark(list);
      }
      before = block;
    }
  }

  PagedBlock* chain_ = nullptr;   // all blocks, sorted by list, while `lists_` is null
  std::unique_ptr<Lists> lists_;  // null until `create_lists`
  size_t list_count_ = 0;         // the lists that the blocks reserved for need
};

}  // namespace ashlar::paged
