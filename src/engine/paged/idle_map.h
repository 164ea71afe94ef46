// SPDX-License-Identifier: Apache-2.0
//
// What a plan asks of every extent of a pool: whether it is idle, and where. Packed, as PackedSlot
// is, and numbered like the pool's list of extents, from 1 on. Guarded by the engine's lock.
#pragma once

#include <vector>

#include "engine/paged/view.h"
#include "engine/size_policy.h"

namespace ashlar::paged {

class IdleMap {
 public:
  static uint32_t number_of(const Extent& extent) {
    return static_cast<uint32_t>(extent.position + 1);
  }

  // For so many extents, before the pool has them: none of the lists may be shorter.
  void make_room_for(size_t count) {
    make_room(uses_, count + 1);
    make_room(blocks_, count + 1);
    make_room(homes_, count + 1);
    make_room(ends_, count + 1);
  }
  // The pool has a new extent at the end of its list; or has moved the last one to the place of
  // one that is gone. REQUIRES: there is room.
  void add() {
    uses_.push_back(Use::kActive);
    blocks_.push_back(nullptr);
    homes_.push_back(0);
    ends_.push_back({});
  }
  void replace_by_last(const Extent& gone) {
    const uint32_t number = number_of(gone);
    uses_[number] = uses_.back();
    blocks_[number] = blocks_.back();
    homes_[number] = homes_.back();
    ends_[number] = ends_.back();
    uses_.pop_back();
    blocks_.pop_back();
    homes_.pop_back();
    ends_.pop_back();
  }

  // --- always ----------------------------------------------------------------------------------
  void set_home(const Extent& extent, uint32_t view) { homes_[number_of(extent)] = view; }
  bool is_at_home(uint32_t number, const View& view) const { return homes_[number] == view.id; }
  bool has_home(const Extent& extent) const { return homes_[number_of(extent)] != 0; }

  // --- while a plan is made --------------------------------------------------------------------
  void forget_all() {
    uses_.assign(uses_.size(), Use::kActive);
    ends_.assign(ends_.size(), {});
  }
  // Nobody uses it. The free block that contains all of it; none: it has no home.
  void set_idle(uint32_t number, PagedBlock* block, bool is_borrowed) {
    uses_[number] = is_borrowed ? Use::kBorrowed : Use::kOwn;
    blocks_[number] = block;
  }
  void set_block(uint32_t number, PagedBlock* block) { blocks_[number] = block; }
  // A part of it is free, at its beginning or at its end.
  void set_free_begin(uint32_t number, size_t bytes) { ends_[number].begin = in_units(bytes); }
  void set_free_end(uint32_t number, size_t bytes) { ends_[number].end = in_units(bytes); }
  void set_active(const Extent& extent) { uses_[number_of(extent)] = Use::kActive; }

  bool is_idle(uint32_t number) const { return uses_[number] != Use::kActive; }
  bool could_serve(const PackedSlot& slot) const { return slot.is_usable && is_idle(slot.extent); }
  // Another stream used it last.
  bool is_borrowed(uint32_t number) const { return uses_[number] == Use::kBorrowed; }
  PagedBlock* block_of(uint32_t number) const { return blocks_[number]; }
  // 0 also where less is free than a plan looks at.
  size_t free_begin_bytes(uint32_t number) const { return ends_[number].begin * kMinBlockBytes; }
  size_t free_end_bytes(uint32_t number) const { return ends_[number].end * kMinBlockBytes; }
  template <typename Visit>
  void for_each_idle(const Visit& visit) const {
    for (uint32_t number = 1; number < uses_.size(); ++number) {
      if (is_idle(number)) visit(number);
    }
  }
  template <typename Visit>
  void for_each_homeless(const Visit& visit) const {
    for (uint32_t number = 1; number < homes_.size(); ++number) {
      if (homes_[number] == 0) visit(number);
    }
  }

 private:
  enum class Use : uint8_t { kActive, kOwn, kBorrowed };
  struct Ends {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  static uint32_t in_units(size_t bytes) { return static_cast<uint32_t>(bytes / kMinBlockBytes); }

  // Number 0 is nobody, and never idle.
  std::vector<Use> uses_ = {Use::kActive};
  std::vector<PagedBlock*> blocks_ = {nullptr};
  std::vector<uint32_t> homes_ = {UINT32_MAX};  // ids of views; 0: none
  std::vector<Ends> ends_ = {{}};
};

}  // namespace ashlar::paged
