// SPDX-License-Identifier: Apache-2.0
//
// Moves extents between views by bookkeeping alone: the mappings exist already, so no driver call
// is made. Attaching an extent to a slot makes its memory part of that view's blocks; detaching it
// turns the slot's addresses into a detached block.
//
// The origin of an extent is its first mapping. An extent that is attached to another view is
// displaced if it could return to its origin (View::is_displaced). Except with the `lean` policy, a
// displaced extent returns to its origin some time after it has become free. Memory that was mapped
// contiguously thus becomes contiguous again and serves large blocks without stitching, and a
// program that repeats its requests gets the same addresses.
//
// Invariants kept for every view:
//   attached_count  == number of slots whose extent is attached there
//   displaced_count == number of slots with has_displaced
//
// All functions need the engine's lock, and the locks of the arenas whose blocks they change. They
// cannot fail. Functions that split blocks require that the reserves of these arenas were filled
// (Arena::fill_reserve).
#pragma once

#include <vector>

#include "ashlar/options.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/pool/paged_pool.h"
#include "engine/paged/request_tracer.h"

namespace ashlar::paged {

class ExtentMover {
 public:
  ExtentMover(PagedPolicy policy, RequestTracer& tracer)
      // Displaced extents are not returned under the `lean` policy, which stitches at any cost: it
      // reserves less memory if extents stay where they were last used.
      : returns_displaced_(policy != PagedPolicy::kLean), tracer_(tracer) {}

  void attach(Extent& extent, View& view, size_t slot) noexcept ASHLAR_REQUIRES(engine_lock);
  void detach(Extent& extent) noexcept ASHLAR_REQUIRES(engine_lock);
  // Splits an attached idle extent off the free block that contains it, and detaches it. REQUIRES:
  // `mark_idle_extents` has found the extent idle since the arenas were locked.
  void detach_idle(Extent& extent) noexcept ASHLAR_REQUIRES(engine_lock);
  // Gives a view without blocks in use to `arena`, which may own it already. Detaches all extents
  // of the view, so that the new stream uses each of them only after waiting for the old stream.
  // REQUIRES: `arena` has blocks for all slots of the view in addition to its reserve.
  void move_view(View& view, Arena& arena) noexcept ASHLAR_REQUIRES(engine_lock);
  // Takes the blocks of a range, which must be free or detached, as one block in state kPending,
  // and attaches the extents of detached blocks. `from` contains the beginning of the range. A
  // detached block is taken as a whole slot, so the result may be larger than the range. Appends to
  // `lenders` the arenas that last used the attached extents, except the view's own arena. An arena
  // may be appended several times. REQUIRES: `lenders` has capacity for every slot of the view.
  PagedBlock* take_range(View& view, PagedBlock* from, AddressRange range,
                         std::vector<Arena*>& lenders) noexcept ASHLAR_REQUIRES(engine_lock);
  // Makes a block from `take_range` free again; the extents entirely inside it become detached.
  void return_range(PagedBlock* block) noexcept ASHLAR_REQUIRES(engine_lock);
  // Returns the displaced extents in the arena's `return_queue` to their origins.
  void return_displaced(Arena& arena) noexcept ASHLAR_REQUIRES(engine_lock);

  // Advances and returns the counter that orders detaches and placements.
  uint64_t next_tick() ASHLAR_REQUIRES(engine_lock) { return ++now_; }

 private:
  static void set_idle_block(const View& view, size_t begin, size_t end, PagedBlock* block) noexcept
      ASHLAR_REQUIRES(engine_lock);
  void return_displaced_in(PagedBlock* block) noexcept ASHLAR_REQUIRES(engine_lock);
  void attach_to_origin(Extent& extent, Arena& arena) noexcept ASHLAR_REQUIRES(engine_lock);

  const bool returns_displaced_;
  RequestTracer& tracer_;
  uint64_t now_ ASHLAR_GUARDED_BY(engine_lock) = 0;
};

}  // namespace ashlar::paged
