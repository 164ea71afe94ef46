// SPDX-License-Identifier: Apache-2.0
//
// Makes the driver calls for an engine's views: reserves addresses, maps and unmaps extents, grants
// access. Notifies remap observers, and counts mappings and addresses:
//
//   usage().mappings      == sum over extents of their mappings
//   usage().address_bytes == sum over views that are not plain of their reserved bytes
//   retired().mappings    == number of retired slots
//   retired().address_bytes == sum over retired views of their reserved bytes
//
// All functions need the engine's lock, and take the locks of arenas themselves. Errors of
// functions that return no Status are deferred.
#pragma once

#include <vector>

#include "engine/paged/config.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/extent_mover.h"
#include "engine/paged/extent_store.h"
#include "engine/paged/request_tracer.h"
#include "engine/remap_observers.h"

namespace ashlar::paged {

struct MappingUsage {
  size_t mappings = 0;
  size_t address_bytes = 0;

  friend bool operator==(const MappingUsage&, const MappingUsage&) = default;
};

class ViewTable {
 public:
  ViewTable(const PagedConfig& config, EngineMutex& mutex, ExtentMover& mover,
            RequestTracer& tracer, DeferredError& error)
      : config_(config),
        mutex_(mutex),
        mover_(mover),
        tracer_(tracer),
        error_(error),
        accessors_{config.index} {}

  RemapObservers& observers() { return observers_; }
  MappingUsage usage() const ASHLAR_REQUIRES(engine_lock) { return usage_; }
  MappingUsage retired() const ASHLAR_REQUIRES(engine_lock) { return retired_; }
  MappingUsage unretired() const ASHLAR_REQUIRES(engine_lock) {
    return {usage_.mappings - retired_.mappings, usage_.address_bytes - retired_.address_bytes};
  }
  // Returns a bound on the reserved addresses of views. Above this bound, views are retired, and
  // new views get no addresses to grow into.
  size_t max_address_bytes() const;

  // Reserves addresses for a view of at least `bytes`, with addresses to grow into if there are
  // enough. A stream's first view of large blocks reserves the most addresses, since the stream's
  // new memory is mapped into it.
  Result<View*> create(SlowPathRequest& request, size_t bytes) ASHLAR_REQUIRES(engine_lock);
  // Frees the addresses, and destroys the view. REQUIRES: no slot has an extent. Returns false on
  // failure.
  bool release(View& view) noexcept ASHLAR_REQUIRES(engine_lock);
  // Releases all views of the pool in which no slot has an extent.
  void release_empty(PagedPool& pool) noexcept ASHLAR_REQUIRES(engine_lock);

  // Maps the extents at the end of the view, attaches them, and appends a block in state kPending
  // for them. On failure nothing is mapped; if even unmapping fails, the new slots are detached and
  // not accessible. REQUIRES: the view has reserved enough addresses, and its arena has a block in
  // addition to its reserve.
  Result<PagedBlock*> map_at_end(View& view, const std::vector<Extent*>& extents,
                                 SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  // Permanently unmaps the extent from all of its slots, or from some on failure, and returns
  // whether it succeeded. REQUIRES: the extent is detached, and its release has been announced.
  bool unmap_all(Extent& extent) noexcept ASHLAR_REQUIRES(engine_lock);
  // `unmap_for_pause` unmaps the extent everywhere but keeps its slots; `map_again` maps the extent
  // into its slots again. Both functions may fail partway and be repeated.
  Status unmap_for_pause(Extent& extent) ASHLAR_REQUIRES(engine_lock);
  Status map_again(Extent& extent) ASHLAR_REQUIRES(engine_lock);

  // Notifies observers that these extents will be unmapped; this may release the lock. The extents
  // must not be used until they are released or `cancel_release` is called. The caller keeps the
  // result until then. Throws std::bad_alloc, without effect, if there is no memory for the
  // notices.
  RemapObservers::Reservation announce_release(const std::vector<Extent*>& extents)
      ASHLAR_REQUIRES(engine_lock);
  void cancel_release(Extent& extent) noexcept ASHLAR_REQUIRES(engine_lock);

  // Marks a slot as retired: it must not be used, and is unmapped once work that may use it is
  // done.
  void retire_slot(View& view, size_t slot, uint64_t serial) noexcept ASHLAR_REQUIRES(engine_lock);
  void retire_view(View& view) noexcept ASHLAR_REQUIRES(engine_lock);
  void unretire_view(View& view) noexcept ASHLAR_REQUIRES(engine_lock);
  // Unmaps a retired slot. If the unmapping was not announced, because the extent is being
  // released, or if unmapping fails, the slot stays mapped but is no longer retired. REQUIRES: the
  // caller has a reservation for one notice.
  void unmap_retired_slot(View& view, size_t slot) noexcept ASHLAR_REQUIRES(engine_lock);

  // Grants another device access to all mappings of the pool. On failure the device may have access
  // to some of the mappings; the next attempt grants access again.
  Status grant_access_to(DeviceIndex accessor, const PagedPool& pool) ASHLAR_REQUIRES(engine_lock);
  // Grants the device access to all later mappings.
  void add_accessor(DeviceIndex accessor) ASHLAR_REQUIRES(engine_lock) {
    accessors_.push_back(accessor);
  }
  bool is_accessor(DeviceIndex device) const ASHLAR_REQUIRES(engine_lock);

  // Returns whether map_at_end has mapped anything since the last call of take_has_mapped.
  bool take_has_mapped() ASHLAR_REQUIRES(engine_lock) { return std::exchange(has_mapped_, false); }

 private:
  bool free_addresses(View& view) noexcept ASHLAR_REQUIRES(engine_lock);
  void reserve_slots(View& view, const std::vector<Extent*>& extents) ASHLAR_REQUIRES(engine_lock);
  void add_slot(View& view, Extent& extent, const Slot& slot) noexcept ASHLAR_REQUIRES(engine_lock);
  Status map_extents(const View& view, const std::vector<Extent*>& extents, size_t& mapped_count,
                     SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  bool try_unmap(AddressRange range) noexcept ASHLAR_REQUIRES(engine_lock);
  Status set_access(AddressRange range) ASHLAR_REQUIRES(engine_lock);
  void unretire_slot(View& view, size_t slot) noexcept ASHLAR_REQUIRES(engine_lock);
  void forget_mapping(View& view, size_t slot) noexcept ASHLAR_REQUIRES(engine_lock);
  void trace_other_mapping(Extent& extent) noexcept ASHLAR_REQUIRES(engine_lock);

  const PagedConfig& config_;
  EngineMutex& mutex_;
  ExtentMover& mover_;
  RequestTracer& tracer_;
  DeferredError& error_;
  RemapObservers observers_;
  std::vector<DeviceIndex> accessors_ ASHLAR_GUARDED_BY(engine_lock);
  MappingUsage usage_ ASHLAR_GUARDED_BY(engine_lock);
  MappingUsage retired_ ASHLAR_GUARDED_BY(engine_lock);
  bool has_mapped_ ASHLAR_GUARDED_BY(engine_lock) = false;
};

}  // namespace ashlar::paged
