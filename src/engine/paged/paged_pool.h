// SPDX-License-Identifier: Apache-2.0
//
// The default pool, or a private one: memory that is kept apart from that of the others, and lent
// from stream to stream within.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ashlar/pool.h"
#include "engine/paged/arena.h"
#include "engine/paged/budget.h"
#include "engine/paged/idle_map.h"

namespace ashlar::paged {

// How large the large blocks are that misses ask for: each counts by its bytes, so that it is the
// size that most of the memory is cut into.
class UsualSize {
 public:
  void add(size_t bytes) {
    const auto added = static_cast<double>(bytes);
    sum_ += added;
    sum_of_squares_ += added * added;
  }
  size_t bytes() const { return sum_ == 0 ? 0 : static_cast<size_t>(sum_of_squares_ / sum_); }

 private:
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

// A private one is gone once it is freeable (base/routes.h), holds no memory any more, and nobody
// is allocating from it.
struct PagedPool {
  PagedPool(PoolId pool_id, PoolOptions pool_options, bool plain)
      : id(pool_id), options(std::move(pool_options)), is_plain(plain) {}

  const PoolId id;
  const PoolOptions options;
  const bool is_plain;  // whole segments: from a source, never split, or of a device without views
  bool is_paused = false;    // some of its memory is not there, or none: nothing is allocated
  bool is_changing = false;  // a call is pausing or resuming it, and may have unlocked meanwhile
  bool is_baked = false;     // a graph or a checkpoint knows its addresses
  int trim_count = 0;        // trims on their way, likewise
  Budget budget{};           // of stitching
  UsualSize usual_size{};    // of what was not in the cache
  int search_count = 0;      // allocations on their way, which may have unlocked meanwhile
  std::map<StreamId, std::unique_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<View>> views;
  std::vector<std::unique_ptr<Extent>> extents;
  IdleMap idle{};
  uint32_t last_view = 0;
  std::vector<Retirement> retired;

  View& add_view() {
    views.push_back(std::make_unique<View>());
    views.back()->id = ++last_view;
    return *views.back();
  }
  // REQUIRES: the locks of its arenas.
  bool has_active() const {
    for (const auto& view : views) {
      for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
        if (block->is_active()) return true;
      }
    }
    return false;
  }
  // Whether mappings may go that are not in use.
  bool may_unmap() const {
    return !is_plain && !options.never_remap && !is_baked && !is_paused && !is_changing;
  }
  bool has_memory() const { return !views.empty() || !extents.empty(); }
};

}  // namespace ashlar::paged
