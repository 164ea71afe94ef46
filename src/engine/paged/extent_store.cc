// SPDX-License-Identifier: Apache-2.0
//
// Creates and releases physical memory.
#include "engine/paged/extent_store.h"

#include <utility>

#include "base/check.h"
#include "base/host_memory.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar::paged {

size_t ExtentStore::limit_bytes() const {
  if (memory_fraction_ >= 1) return config_.capacity_bytes;
  return static_cast<size_t>(memory_fraction_ * static_cast<double>(config_.capacity_bytes));
}

bool ExtentStore::is_above_limit(size_t more_bytes) const {
  return memory_fraction_ < 1 && held_bytes_ + growing_bytes_ + more_bytes > limit_bytes();
}

Status ExtentStore::check_limit(SlowPathRequest& request, size_t more_bytes) const {
  request.device_bytes = more_bytes;
  if (!is_above_limit(more_bytes)) return {};
  request.is_rejected = config_.options.reject_before_device_oom;
  return Status::out_of_memory("above the memory limit of this process");
}

CreateOptions ExtentStore::extent_options() const {
  CreateOptions options;
  options.can_export_fd = config_.sizing.is_shareable();
  return options;
}

// Allocates all host memory for an extent before the device creates it.
Status ExtentStore::create(const SlowPathRequest& request, const std::vector<size_t>& sizes,
                           std::vector<Extent*>& created) {
  PagedPool& pool = *request.pool;
  const size_t first = created.size();
  reserve_amortized(created, first + sizes.size());
  reserve_amortized(pool.extents, pool.extents.size() + sizes.size());
  pool.idle.reserve(pool.extents.size() + sizes.size());
  ScopeGuard undo([&]() ASHLAR_REQUIRES(engine_lock) {
    undo_creation(pool, std::span(created).subspan(first));
    created.resize(first);
  });
  for (const size_t bytes : sizes) {
    auto extent = std::make_unique<Extent>();
    extent->mappings.reserve(1);
    const Result<ExtentId> id = config_.device.create(bytes, extent_options());
    if (!id.ok()) return id.status();
    extent->id = *id;
    extent->bytes = bytes;
    extent->index = pool.extents.size();
    extent->arena = request.arena;
    extent->is_small = request.is_small;
    created.push_back(extent.get());
    pool.extents.push_back(std::move(extent));
    pool.idle.add();
    ++extent_count_;
  }
  undo.dismiss();
  return {};
}

void ExtentStore::count_created(std::span<Extent* const> created) noexcept {
  for (const Extent* extent : created) {
    held_bytes_ += extent->bytes;
    peaks_.count_reserved(*extent->arena, extent->is_small, static_cast<int64_t>(extent->bytes));
  }
}

void ExtentStore::undo_creation(PagedPool& pool, std::span<Extent* const> created) noexcept {
  for (Extent* extent : created) {
    const bool is_released =
        extent->mappings.empty() && catch_bad_alloc([&]() ASHLAR_REQUIRES(engine_lock) {
          Status released = config_.device.release(extent->id);
          const bool is_ok = released.ok();
          if (!is_ok) error_.record(std::move(released));
          return is_ok;
        });
    if (is_released) {
      erase(pool, extent);
    } else {
      count_created({&extent, 1});
    }
  }
}

bool ExtentStore::release(PagedPool& pool, Extent* extent) noexcept {
  ASHLAR_CHECK(extent->attached_view == nullptr && extent->mappings.empty());
  const bool is_dropped = catch_bad_alloc([&]() ASHLAR_REQUIRES(engine_lock) {
    Status dropped = drop(*extent);
    const bool is_ok = dropped.ok();
    if (!is_ok) error_.record(std::move(dropped));
    return is_ok;
  });
  if (!is_dropped) return false;
  backups_.discard(*extent);
  erase(pool, extent);
  return true;
}

void ExtentStore::erase(PagedPool& pool, Extent* extent) noexcept {
  Extent& last = *pool.extents.back();
  pool.idle.replace_by_last(*extent);
  last.index = extent->index;
  for (const Extent::Mapping& mapping : last.mappings) mapping.view->repack(mapping.slot);
  std::swap(pool.extents[last.index], pool.extents.back());
  pool.extents.pop_back();  // destroys `extent`, which may be `last`
  --extent_count_;
}

Status ExtentStore::drop(Extent& extent) {
  if (extent.is_dropped) return {};
  if (Status released = config_.device.release(extent.id); !released.ok()) return released;
  extent.is_dropped = true;
  held_bytes_ -= extent.bytes;
  peaks_.count_reserved(*extent.arena, extent.is_small, -static_cast<int64_t>(extent.bytes));
  if (extent.traced.bytes != 0) {
    tracer_.trace_memory(TraceAction::kSegmentUnmap, *extent.arena, extent.traced);
  }
  return {};
}

Status ExtentStore::recreate(Extent& extent) {
  if (is_above_limit(extent.bytes)) {
    return Status::out_of_memory(text("resuming needs ", format_bytes(extent.bytes),
                                      " more, but this process is limited to ",
                                      format_bytes(limit_bytes()),
                                      ": free or pause other memory, or raise the limit, and "
                                      "resume again"));
  }
  const Result<ExtentId> id = config_.device.create(extent.bytes, extent_options());
  if (!id.ok()) return id.status();
  extent.id = *id;
  extent.is_dropped = false;
  held_bytes_ += extent.bytes;
  peaks_.count_reserved(*extent.arena, extent.is_small, static_cast<int64_t>(extent.bytes));
  if (extent.traced.bytes != 0) {
    tracer_.trace_memory(TraceAction::kSegmentMap, *extent.arena, extent.traced);
  }
  return {};
}

void ExtentStore::add_segment(const View& view) noexcept {
  held_bytes_ += view.reserved.bytes;
  peaks_.count_reserved(*view.arena, view.is_small, static_cast<int64_t>(view.reserved.bytes));
  peaks_.count_segments(view.is_small, 1);
}

void ExtentStore::remove_segment(const View& view) noexcept {
  held_bytes_ -= view.reserved.bytes;
  peaks_.count_reserved(*view.arena, view.is_small, -static_cast<int64_t>(view.reserved.bytes));
  peaks_.count_segments(view.is_small, -1);
}

}  // namespace ashlar::paged
