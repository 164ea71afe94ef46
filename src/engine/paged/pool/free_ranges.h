// SPDX-License-Identifier: Apache-2.0
//
// The merged free blocks of a sub-arena, in lists by size. The sizes of one list differ by at most
// a sixteenth, and a bitmap marks the lists that are not empty. Insert and erase take constant
// time, as does each step of a search. Lists are created only up to the size of the largest view,
// because a program may have thousands of streams that each use little memory. Not thread safe:
// guarded by the arena's lock.
#pragma once

#include <array>
#include <bit>
#include <vector>

#include "base/check.h"
#include "engine/paged/pool/view.h"
#include "engine/size_policy.h"

namespace ashlar::paged {

class FreeRanges {
 public:
  // The blocks that a visitor still accepts: any block, only blocks of the first list, or none.
  enum class Next { kAny, kNotLarger, kNone };

  // Creates the lists for blocks of up to `bytes`. Throws std::bad_alloc, without effect, if there
  // is no memory.
  void reserve(size_t bytes) {
    const size_t count = list_of(bytes) + 1;
    if (count > heads_.size()) heads_.resize(count);
  }
  // REQUIRES: `reserve` was called for the block's size or a larger one.
  void insert(PagedBlock* block) noexcept {
    const size_t list = list_of(block->bytes);
    ASHLAR_DCHECK(list < heads_.size());
    block->list_previous = nullptr;
    block->list_next = heads_[list];
    if (block->list_next != nullptr) block->list_next->list_previous = block;
    heads_[list] = block;
    occupied_[list / 64] |= uint64_t{1} << (list % 64);
  }
  // REQUIRES: the block was inserted, and its size has not changed since.
  void erase(PagedBlock* block) noexcept {
    if (block->list_next != nullptr) block->list_next->list_previous = block->list_previous;
    if (block->list_previous != nullptr) {
      block->list_previous->list_next = block->list_next;
      return;
    }
    const size_t list = list_of(block->bytes);
    heads_[list] = block->list_next;
    if (heads_[list] == nullptr) occupied_[list / 64] &= ~(uint64_t{1} << (list % 64));
  }

  // Visits blocks of at least `bytes`, roughly in order of size, until `visit` returns kNone. The
  // visitor may erase the block it is given. The first list also holds blocks that are too small,
  // each of which costs a CPU cache miss. Therefore, after a few such blocks, the larger lists are
  // visited before the remainder of the first list. If the visitor returns kNotLarger for a larger
  // block, only a few blocks of that remainder are visited.
  template <typename Visit>
  void visit_at_least(size_t bytes, const Visit& visit) const {
    const size_t first = list_of(bytes);
    if (first >= heads_.size()) return;  // no view is that large
    PagedBlock* rest = heads_[first];
    for (int too_small = 0; rest != nullptr && too_small < kMaxTooSmall;) {
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
    for (int seen = 0; rest != nullptr; ++seen) {
      if (wanted == Next::kNotLarger && seen == kMaxTooSmall) return;
      PagedBlock* block = rest;
      rest = block->list_next;
      if (block->bytes >= bytes && visit(block) == Next::kNone) return;
    }
  }

 private:
  template <typename Visit>
  Next visit_lists(size_t first, const Visit& visit) const {
    for (size_t list = next_occupied(first); list < kMaxListCount; list = next_occupied(list + 1)) {
      for (PagedBlock *block = heads_[list], *next = nullptr; block != nullptr; block = next) {
        next = block->list_next;
        if (const Next wanted = visit(block); wanted != Next::kAny) return wanted;
      }
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
  size_t next_occupied(size_t list) const {
    for (size_t word = list / 64; word < occupied_.size(); ++word) {
      uint64_t bits = occupied_[word];
      if (word == list / 64) bits &= ~uint64_t{0} << (list % 64);
      if (bits != 0) return word * 64 + static_cast<size_t>(std::countr_zero(bits));
    }
    return kMaxListCount;
  }

  std::vector<PagedBlock*> heads_;  // indexed by list
  std::array<uint64_t, kMaxListCount / 64> occupied_{};
};

}  // namespace ashlar::paged
