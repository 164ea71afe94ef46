// SPDX-License-Identifier: Apache-2.0
//
// Pauses and resumes pools: backs up live extents, releases their memory, and restores it.
#include "engine/paged/pool_pauser.h"

#include <algorithm>
#include <exception>
#include <new>

#include "base/host_memory.h"
#include "base/text.h"
#include "device/relaxed_capture.h"

namespace ashlar::paged {
namespace {

bool is_any_trimmed(const std::vector<PagedPool*>& pools) {
  return std::any_of(pools.begin(), pools.end(),
                     [](const PagedPool* pool) { return pool->trim_count > 0; });
}

// Sets the backup range of each extent to span all of its allocated bytes, and appends the extents
// that have allocated bytes to `live`.
void find_live_extents(const PagedPool& pool, std::vector<Extent*>& live) {
  ArenaLocks arenas(pool);
  for (const auto& view : pool.views) {
    for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
      if (!block->is_allocated()) continue;
      const size_t begin = view->offset_of(*block);
      const size_t end = begin + block->bytes;
      for (size_t i = view->slot_at(begin); i < view->slots.size() && view->slots[i].offset < end;
           ++i) {
        const Slot& slot = view->slots[i];
        AddressRange& range = slot.extent->backup.range;
        const DeviceAddress from = view->at(std::max(begin, slot.offset));
        const DeviceAddress to = view->at(std::min(end, slot.end()));
        if (range.bytes == 0) {
          range.begin = from;
          live.push_back(slot.extent);
        }
        range.bytes = to - range.begin;
      }
    }
  }
}

Status check_none_pending(const PagedPool& pool) {
  ArenaLocks arenas(pool);
  for (const auto& view : pool.views) {
    for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
      if (block->state != BlockState::kPending) continue;
      return Status::invalid_argument(
          text("the freed block at ", block->address,
               " is still used by a capture: end the capture before pausing its pool"));
    }
  }
  return {};
}

bool is_fully_mapped(const PagedPool& pool) {
  return std::all_of(pool.extents.begin(), pool.extents.end(), [](const auto& extent) {
    return !extent->is_dropped &&
           std::all_of(extent->mappings.begin(), extent->mappings.end(), [](const auto& mapping) {
             return mapping.view->slots[mapping.slot].is_mapped;
           });
  });
}

}  // namespace

Status PoolPauser::change(std::string_view tag, PoolTransition transition, EngineLock& lock) {
  if (active_thread_ == std::this_thread::get_id() || views_.observers().is_notifying_thread()) {
    return Status::invalid_argument("a remap observer cannot pause or resume pools");
  }
  Result<Pools> pools = pools_.find_tagged(tag);
  while (pools.ok() && (active_thread_ != std::thread::id() || is_any_trimmed(*pools))) {
    lock.wait(pools_.changed());
    pools = pools_.find_tagged(tag);
  }
  if (!pools.ok()) return pools.status();
  const RelaxedCapture relaxed(config_.device);  // captures may begin while the lock is released
  if (!relaxed.status().ok()) return relaxed.status();
  active_thread_ = std::this_thread::get_id();
  tracer_.set_stack({});
  for (PagedPool* pool : *pools) pool->is_changing = true;
  const ScopeGuard end([&]() ASHLAR_REQUIRES(engine_lock) {
    for (PagedPool* pool : *pools) pool->is_changing = false;
    backups_.free_discarded();
    active_thread_ = {};
    pools_.notify_changed();
  });
  return transition == PoolTransition::kResume
             ? resume(*pools)
             : pause(*pools, transition == PoolTransition::kPauseAndKeep);
}

// A failure before the first extent of a pool is unmapped leaves the pool unchanged.
Status PoolPauser::pause(const Pools& pools, bool keeps_contents) {
  Pools running;
  for (PagedPool* pool : pools) {
    if (pool->is_paused) continue;
    if (Status can = check_pausable(*pool); !can.ok()) return can;
    running.push_back(pool);
  }
  for (PagedPool* pool : running) pool->is_paused = true;
  ScopeGuard undo([&]() ASHLAR_REQUIRES(engine_lock) {
    for (PagedPool* pool : running) {
      if (!is_fully_mapped(*pool)) continue;  // resume maps it again, or another pause continues
      discard_backups(*pool);
      pool->is_paused = false;
    }
  });
  Status paused = wait_for_users(running);
  if (paused.ok() && keeps_contents) paused = back_up(running);
  if (paused.ok()) paused = drop_extents(pools);
  if (paused.ok()) undo.dismiss();
  return paused;
}

Status PoolPauser::check_pausable(const PagedPool& pool) {
  if (pool.is_plain) {
    return Status::unsupported(
        text("a pool with the tag \"", pool.options.tag,
             "\" consists of plain segments, which cannot be paused (expected a device with "
             "virtual memory)"));
  }
  ArenaLocks arenas(pool);
  for (const auto& view : pool.views) {
    for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
      if (!block->is_active()) continue;
      if (block->pin_count > 0) {
        return Status::invalid_argument(
            text("the block at ", block->address,
                 " is shared with other processes: end the sharing first"));
      }
      if (view->is_plain) {
        return Status::unsupported(text("the block at ", block->address,
                                        " was allocated without caching, as a segment of its own, "
                                        "and cannot be paused: free it first"));
      }
    }
  }
  return {};
}

// Returns the streams that last used the pools' extents, and those that record_stream declared for
// blocks in use.
std::vector<DeviceStream> PoolPauser::find_using_streams(const Pools& pools) {
  std::vector<DeviceStream> uses;
  const auto add = [&](const DeviceStream& use) {
    if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
  };
  for (const PagedPool* pool : pools) {
    ArenaLocks arenas(*pool);
    for (const auto& extent : pool->extents) add({&config_.device, extent->arena->stream});
    for (const auto& view : pool->views) {
      for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
        if (!block->is_active()) continue;
        for (const DeviceStream& use : block->uses) add(use);
      }
    }
  }
  return uses;
}

Status PoolPauser::wait_for_users(const Pools& pools) {
  const std::vector<DeviceStream> uses = find_using_streams(pools);
  bool is_any_destroyed = false;
  for (const DeviceStream& use : uses) {
    if (!streams_.frees().is_waitable(use)) {  // a capture may begin during an earlier wait
      return Status::invalid_argument(
          text("stream ", use.stream.value(),
               ", which uses the pool, is capturing, or was destroyed while another stream "
               "captures: end the capture first"));
    }
    EngineUnlock unlocked(mutex_);
    Status waited = use.device->synchronize_stream(use.stream);
    if (!waited.ok() && !waited.is(StatusKind::kInvalidArgument)) return waited;
    is_any_destroyed = is_any_destroyed || !waited.ok();
  }
  // If a stream has been destroyed, waits again with the lock held. This synchronizes the whole
  // device of that stream, which would invalidate a capture; while the lock is held, no new capture
  // can be announced (capture_began).
  for (size_t i = 0; is_any_destroyed && i < uses.size(); ++i) {
    if (Status waited = streams_.frees().wait_for_stream(uses[i]); !waited.ok()) return waited;
  }
  for (const PagedPool* pool : pools) {
    if (Status waited = pending_.wait(pool->id); !waited.ok()) return waited;
    if (Status checked = check_none_pending(*pool); !checked.ok()) return checked;
  }
  return {};
}

Status PoolPauser::back_up(const Pools& pools) {
  std::vector<Extent*> live;
  for (const PagedPool* pool : pools) find_live_extents(*pool, live);
  if (live.empty()) return {};
  const Result<StreamId> stream = backups_.copy_stream();
  if (!stream.ok()) return stream.status();
  backups_.reserve(live.size());
  EngineUnlock unlocked(mutex_);
  if (Status allocated = backups_.allocate(live); !allocated.ok()) return allocated;
  return backups_.copy(live, HostBackups::Direction::kToHost, *stream);
}

// Drops the extents up to the first failure.
Status PoolPauser::drop_extents(const Pools& pools) {
  std::vector<Extent*> leaving;
  for (const PagedPool* pool : pools) {
    for (const auto& extent : pool->extents) leaving.push_back(extent.get());
  }
  const RemapObservers::Reservation notices = views_.announce_release(leaving);
  Status dropped;
  std::exception_ptr exhausted;  // of host memory
  for (Extent* extent : leaving) {
    try {
      if (dropped.ok() && !exhausted) dropped = views_.unmap_for_pause(*extent);
      if (dropped.ok() && !exhausted) dropped = extents_.drop(*extent);
    } catch (const std::bad_alloc&) {
      exhausted = std::current_exception();
    }
    views_.cancel_release(*extent);
  }
  if (exhausted) std::rethrow_exception(exhausted);
  return dropped;
}

Status PoolPauser::resume(const Pools& pools) {
  std::vector<Extent*> backed_up;
  for (const PagedPool* pool : pools) {
    if (!pool->is_paused) continue;
    for (const auto& extent : pool->extents) {
      if (Status restored = restore(*extent); !restored.ok()) return restored;
      if (extent->backup.memory != nullptr) backed_up.push_back(extent.get());
    }
  }
  if (!backed_up.empty()) {
    const Result<StreamId> stream = backups_.copy_stream();
    if (!stream.ok()) return stream.status();
    EngineUnlock unlocked(mutex_);
    Status copied = backups_.copy(backed_up, HostBackups::Direction::kToDevice, *stream);
    if (!copied.ok()) return copied;
  }
  for (PagedPool* pool : pools) {
    pool->is_paused = false;
    discard_backups(*pool);
  }
  return {};
}

Status PoolPauser::restore(Extent& extent) {
  if (extent.is_dropped) {
    Status created = extents_.recreate(extent);
    if (created.is_out_of_memory()) {
      if (Status trimmed = trimmer_.trim({}); !trimmed.ok()) return trimmed;
      created = extents_.recreate(extent);
    }
    if (!created.ok()) return created;
  }
  return views_.map_again(extent);
}

void PoolPauser::discard_backups(const PagedPool& pool) noexcept {
  for (const auto& extent : pool.extents) backups_.discard(*extent);
}

}  // namespace ashlar::paged
