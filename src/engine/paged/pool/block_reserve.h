// SPDX-License-Identifier: Apache-2.0
//
// The PagedBlock objects of an arena that describe no memory at the moment. Some of these objects
// are reserved for operations that must not fail halfway.
//
// Not thread safe: guarded by the arena's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/check.h"
#include "engine/paged/pool/view.h"

namespace ashlar::paged {

class BlockReserve {
 public:
  size_t reserved_count() const { return reserved_count_; }
  // Whether at most a dozen blocks have been created: the first two chunks.
  bool has_few_blocks() const { return chunks_.size() <= 2; }

  // Reserves `count` more blocks. Throws std::bad_alloc, without effect, if there is no memory.
  // `unreserve` reduces the reservation; requests may have used the blocks in the meantime.
  void reserve(size_t count) {
    fill(count);
    reserved_count_ += count;
  }
  void unreserve(size_t count) noexcept { reserved_count_ -= count; }
  void move_to(BlockReserve& other, size_t count) noexcept {
    reserved_count_ -= count;
    other.reserved_count_ += count;
  }
  // Creates blocks, if necessary, so that all reserved blocks and `more` blocks are unused. Throws
  // std::bad_alloc if there is no memory.
  void fill(size_t more) {
    while (unused_count_ < reserved_count_ + more) add_chunk();
  }
  // Takes an unused block. REQUIRES: the reserve was filled.
  PagedBlock* take() noexcept {
    ASHLAR_DCHECK(unused_ != nullptr);
    if (unused_ == nullptr) add_chunk();
    --unused_count_;
    PagedBlock* block = unused_;
    unused_ = block->list_next;
    return block;
  }
  void put_back(PagedBlock* block) noexcept {
    block->list_next = unused_;
    unused_ = block;
    ++unused_count_;
  }

 private:
  // The number of blocks that are created at a time: two pages. The first chunks are smaller,
  // because a program with thousands of streams may use few blocks on each. The first chunk has as
  // many as the first placement reserves.
  static constexpr size_t kChunkBlocks = 64;
  static constexpr size_t kFirstChunkBlocks = 4;

  void add_chunk() {
    const size_t count =
        std::min(kChunkBlocks, kFirstChunkBlocks << std::min(chunks_.size(), size_t{4}));
    chunks_.push_back(std::make_unique<PagedBlock[]>(count));
    for (size_t i = 0; i < count; ++i) put_back(&chunks_.back()[i]);
  }

  std::vector<std::unique_ptr<PagedBlock[]>> chunks_;
  PagedBlock* unused_ = nullptr;  // the first unused block; linked by `list_next`
  size_t unused_count_ = 0;
  size_t reserved_count_ = 0;
};

}  // namespace ashlar::paged
