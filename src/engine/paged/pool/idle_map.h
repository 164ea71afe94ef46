// SPDX-License-Identifier: Apache-2.0
//
// Records which extents of a pool are idle, that is, used by no block. Its arrays are packed, like
// PackedSlot, because plans scan them. They are indexed by `Extent::number`.
//
// Invariant: attached_ids_[extent.number()] == extent.attached_view->id, or 0 if the extent is
// detached. The idle state is valid from `mark_idle_extents` until the arenas of the pool are
// unlocked.
//
// Not thread safe: guarded by the engine's lock.
#pragma once

#include <span>
#include <vector>

#include "engine/paged/pool/view.h"
#include "engine/size_policy.h"

namespace ashlar::paged {

struct PagedPool;

class IdleMap {
 public:
  // Reserves capacity for `count` extents in total, so that `add` cannot fail.
  void reserve(size_t count) {
    reserve_amortized(uses_, count + 1);
    reserve_amortized(blocks_, count + 1);
    reserve_amortized(attached_ids_, count + 1);
    reserve_amortized(free_ends_, count + 1);
    reserve_amortized(detached_positions_, count + 1);
    reserve_amortized(detached_, count);
    reserve_amortized(marked_, count);
  }
  // Must be called when the pool appends an extent. REQUIRES: capacity is reserved.
  void add() {
    uses_.push_back(Use::kActive);
    blocks_.push_back(nullptr);
    attached_ids_.push_back(0);
    free_ends_.push_back({});
    detached_positions_.push_back(0);
    add_detached(static_cast<uint32_t>(uses_.size() - 1));
  }
  // Call when the pool removes an extent and moves its last extent to that position.
  void replace_by_last(const Extent& removed) {
    const uint32_t number = removed.number();
    clear_marks();
    if (attached_ids_[number] == 0) remove_detached(number);
    blocks_[number] = blocks_.back();
    attached_ids_[number] = attached_ids_.back();
    detached_positions_[number] = detached_positions_.back();
    if (attached_ids_[number] == 0 && number + 1 < uses_.size()) {
      detached_[detached_positions_[number]] = number;
    }
    uses_.pop_back();
    blocks_.pop_back();
    attached_ids_.pop_back();
    free_ends_.pop_back();
    detached_positions_.pop_back();
  }

  // A `view_id` of 0 means that the extent is detached.
  void set_attached_view(const Extent& extent, uint32_t view_id) {
    const uint32_t number = extent.number();
    if (attached_ids_[number] == 0 && view_id != 0) remove_detached(number);
    if (attached_ids_[number] != 0 && view_id == 0) add_detached(number);
    attached_ids_[number] = view_id;
  }
  bool is_attached_to(uint32_t number, const View& view) const {
    return attached_ids_[number] == view.id;
  }
  bool is_attached(const Extent& extent) const { return attached_ids_[extent.number()] != 0; }

  // Starts a new scan: marks every extent as not idle.
  void begin_scan() {
    clear_marks();
    ++round_;
  }
  uint64_t round() const { return round_; }
  // Marks the extent as idle. `block` is the free block that contains the extent; null if the
  // extent is detached.
  void set_idle(uint32_t number, PagedBlock* block, bool is_borrowed) {
    mark(number);
    uses_[number] = is_borrowed ? Use::kBorrowed : Use::kOwn;
    blocks_[number] = block;
  }
  void set_block(uint32_t number, PagedBlock* block) { blocks_[number] = block; }
  void set_active(const Extent& extent) { uses_[extent.number()] = Use::kActive; }
  // The next two functions record that only the first, or only the last, `bytes` of the extent are
  // free.
  void set_free_begin(uint32_t number, size_t bytes) {
    mark(number);
    free_ends_[number].begin = in_units(bytes);
  }
  void set_free_end(uint32_t number, size_t bytes) {
    mark(number);
    free_ends_[number].end = in_units(bytes);
  }

  bool is_idle(uint32_t number) const { return uses_[number] != Use::kActive; }
  bool can_serve(const PackedSlot& slot) const { return slot.is_usable && is_idle(slot.extent); }
  // Whether the extent is idle and was last used by a stream other than the requesting one.
  bool is_borrowed(uint32_t number) const { return uses_[number] == Use::kBorrowed; }
  PagedBlock* block_of(uint32_t number) const { return blocks_[number]; }
  // The next two functions return the number of free bytes at the beginning and at the end of an
  // extent that is partly in use. They return 0 if the free range is smaller than a granule,
  // because scans skip such ranges.
  size_t free_begin_bytes(uint32_t number) const {
    return free_ends_[number].begin * kMinBlockBytes;
  }
  size_t free_end_bytes(uint32_t number) const { return free_ends_[number].end * kMinBlockBytes; }
  template <typename Visit>
  void for_each_idle(const Visit& visit) const {
    for (const uint32_t number : marked_) {
      if (is_idle(number)) visit(number);
    }
  }
  // The numbers of the detached extents, in no particular order.
  const std::vector<uint32_t>& detached() const { return detached_; }

 private:
  enum class Use : uint8_t { kActive, kOwn, kBorrowed };
  struct FreeEnds {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  // Records that the extent's entries must be cleared before the next scan. An extent is marked
  // only once per scan, so that the capacity suffices.
  void mark(uint32_t number) {
    const bool is_marked =
        is_idle(number) || free_ends_[number].begin != 0 || free_ends_[number].end != 0;
    if (!is_marked) marked_.push_back(number);
  }
  void clear_marks() {
    for (const uint32_t number : marked_) {
      uses_[number] = Use::kActive;
      free_ends_[number] = {};
    }
    marked_.clear();
  }
  void add_detached(uint32_t number) {
    detached_positions_[number] = static_cast<uint32_t>(detached_.size());
    detached_.push_back(number);
  }
  void remove_detached(uint32_t number) {
    const uint32_t position = detached_positions_[number];
    detached_[position] = detached_.back();
    detached_positions_[detached_.back()] = position;
    detached_.pop_back();
  }
  static uint32_t in_units(size_t bytes) { return static_cast<uint32_t>(bytes / kMinBlockBytes); }

  // The arrays are indexed by extent number. Entry 0, which stands for no extent, counts as neither
  // idle nor detached.
  std::vector<Use> uses_ = {Use::kActive};
  std::vector<PagedBlock*> blocks_ = {nullptr};
  std::vector<uint32_t> attached_ids_ = {UINT32_MAX};
  std::vector<FreeEnds> free_ends_ = {{}};
  std::vector<uint32_t> detached_;
  std::vector<uint32_t> detached_positions_ = {0};  // indexes in `detached_`
  std::vector<uint32_t> marked_;                    // extents that the last scan marked
  uint64_t round_ = 0;
};

// A visit is the unit of planning cost (StitchBudget): about one cache miss. Eight packed slots
// share a cache line, but scanning them also costs time. This value was measured together with
// kVisitsPerMerge (stitcher.cc).
constexpr size_t kPackedPerVisit = 2;
constexpr int64_t visits_of_packed(size_t count) {
  return static_cast<int64_t>(count / kPackedPerVisit) + 1;
}

// Marks as idle, in `pool.idle`, the extents that no block uses and whose arenas are in `arenas`
// and lend (`Arena::is_lending`). Sets `ViewPlanning::idle_count`. Extents of arenas other than
// `borrower` are marked as borrowed. Returns the number of visits. Considers only merged free
// blocks, so the caller flushes the arenas first. REQUIRES: the locks of `arenas`, which belong to
// the pool; no other arena has detached extents.
int64_t mark_idle_extents(PagedPool& pool, std::span<Arena* const> arenas, const Arena* borrower,
                          size_t granule_bytes);

}  // namespace ashlar::paged
