// SPDX-License-Identifier: Apache-2.0
//
// Pause and resume: pools with a tag lose their memory, and keep their addresses. Views, slots and
// blocks stay as they are; only extents are dropped, and made anew. Each step is remembered where
// it was taken (Extent, Slot), so that a call that failed half-way is finished by the next one, in
// either direction.
//
// While a pool `is_paused` nothing is allocated from it, and while it `is_changing` nothing is
// taken from it: so the waits, the copies and the observers need no lock. What is backed up once is
// kept until the whole pool runs again.
#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "device/relaxed_capture.h"
#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {

Status PagedEngine::pause(std::string_view tag, bool keep_contents) {
  return change_tagged(tag, keep_contents ? Change::kPauseAndKeep : Change::kPause);
}

Status PagedEngine::resume(std::string_view tag) { return change_tagged(tag, Change::kResume); }

// One change at a time; an observer that is told of one cannot begin another.
Status PagedEngine::change_tagged(std::string_view tag, Change change) {
  const Status changed = [&]() -> Status {
    MutexLock lock(mutex_);
    if (changer_ == std::this_thread::get_id() || remaps_.is_notifying_thread()) {
      return Status::invalid_argument("an observer of remapping can neither pause nor resume");
    }
    Result<std::vector<PagedPool*>> pools = tagged_pools(tag);
    while (pools.ok() && (changer_ != std::thread::id() || is_any_trimmed(*pools))) {
      lock.wait(changed_);
      pools = tagged_pools(tag);
    }
    if (!pools.ok()) return pools.status();
    const RelaxedCapture relaxed(device_);  // captures may begin while we are unlocked
    if (!relaxed.status().ok()) return relaxed.status();
    changer_ = std::this_thread::get_id();
    caller_stack_ = {};
    for (PagedPool* pool : *pools) pool->is_changing = true;
    Status done = change == Change::kResume ? resume_pools(*pools)
                                            : pause_pools(*pools, change == Change::kPauseAndKeep);
    for (PagedPool* pool : *pools) pool->is_changing = false;
    free_stale_backups();
    changer_ = {};
    changed_.notify_all();
    give_back_to_sources();
    refresh();
    return done;
  }();
  settle();
  hooks_.notify();
  remaps_.notify();
  return changed;
}

Result<std::vector<PagedPool*>> PagedEngine::tagged_pools(std::string_view tag) const {
  if (tag.empty())
    return Status::invalid_argument("an empty tag is no pool's (expected a PoolOptions::tag)");
  std::vector<PagedPool*> pools;
  for (const auto& [id, pool] : pools_) {
    if (pool->options.tag == tag) pools.push_back(pool.get());
  }
  if (pools.empty()) return Status::invalid_argument(text("no pool has the tag \"", tag, "\""));
  return pools;
}

bool PagedEngine::is_any_trimmed(const std::vector<PagedPool*>& pools) {
  return std::any_of(pools.begin(), pools.end(),
                     [](const PagedPool* pool) { return pool->trim_count > 0; });
}

Status PagedEngine::paused(const PagedPool& pool) {
  return Status::invalid_argument(
      text("the pool is paused: resume \"", pool.options.tag, "\" before allocating from it"));
}

// --- pause --------------------------------------------------------------------------------------

// Until the first extent is dropped, whatever fails leaves the pools as they were.
Status PagedEngine::pause_pools(const std::vector<PagedPool*>& pools, bool keep_contents) {
  std::vector<PagedPool*> running;
  for (PagedPool* pool : pools) {
    if (pool->is_paused) continue;
    if (Status can = check_pausable(*pool); !can.ok()) return can;
    running.push_back(pool);
  }
  for (PagedPool* pool : running) pool->is_paused = true;
  Status ready = wait_for_users(running);
  if (ready.ok() && keep_contents) ready = back_up(running);
  if (!ready.ok()) {
    for (PagedPool* pool : running) {
      forget_backups(*pool);
      pool->is_paused = false;
    }
    return ready;
  }
  return drop_extents(pools);
}

Status PagedEngine::check_pausable(PagedPool& pool) {
  if (pool.is_plain) {
    return Status::unsupported(
        text("a pool with the tag \"", pool.options.tag,
             "\" is made of whole segments, whose addresses go with their memory: pools that can "
             "pause have no source, are split, and are on a device with virtual memory"));
  }
  AllArenas arenas(pool);
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

// The streams that the memory was last used on, by blocks that are gone too; those that blocks are
// used on besides; and what was freed while others used it.
Status PagedEngine::wait_for_users(const std::vector<PagedPool*>& pools) {
  std::vector<StreamUse> uses;
  bool is_gone = false;  // one of them
  const auto add = [&](const StreamUse& use) {
    if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
  };
  for (const PagedPool* pool : pools) {
    AllArenas arenas(*pool);
    for (const auto& extent : pool->extents) add({&device_, extent->arena->stream});
    for (const auto& view : pool->views) {
      for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
        if (!block->is_active()) continue;
        for (const StreamUse& use : block->uses) add(use);
      }
    }
  }
  for (const StreamUse& use : uses) {
    if (!waiting_.is_waitable(use)) {  // asked again for each: captures begin while we wait
      return Status::invalid_argument(
          text("stream ", use.stream.value(),
               ", which uses the pool, is capturing, or gone while others "
               "capture: end the capture first"));
    }
    MutexUnlock unlocked(mutex_);
    Status waited = use.device->synchronize_stream(use.stream);
    if (!waited.ok() && !waited.is(StatusKind::kInvalidArgument)) return waited;
    is_gone = is_gone || !waited.ok();
  }
  // No capture begins while we are locked, which the wait for a whole device would break.
  for (size_t i = 0; is_gone && i < uses.size(); ++i) {
    if (Status waited = waiting_.wait_for_stream(uses[i]); !waited.ok()) return waited;
  }
  for (const PagedPool* pool : pools) {
    if (Status waited = wait_for_waiting(pool->id); !waited.ok()) return waited;
    AllArenas arenas(*pool);
    for (const auto& view : pool->views) {
      for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
        if (block->state != BlockState::kPending) continue;
        return Status::invalid_argument(
            text("the block at ", block->address,
                 " was freed, and waits for a capture: end the capture first"));
      }
    }
  }
  return {};
}

// All copies are queued before the first is waited for.
Status PagedEngine::back_up(const std::vector<PagedPool*>& pools) {
  std::vector<Extent*> live;
  for (const PagedPool* pool : pools) find_live(*pool, live);
  if (live.empty()) return {};
  const Result<StreamId> copier = find_copier();
  if (!copier.ok()) return copier.status();
  MutexUnlock unlocked(mutex_);
  for (Extent* extent : live) {
    const Result<void*> memory = device_.allocate_host(extent->backup.range.bytes);
    if (!memory.ok()) return memory.status();
    extent->backup.memory = *memory;
  }
  return copy_backups(live, CopyWay::kToHost, *copier);
}

// From the first byte in use to the last one, in each extent.
void PagedEngine::find_live(const PagedPool& pool, std::vector<Extent*>& live) {
  AllArenas arenas(pool);
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

// A stream of its own, which nobody else's work holds up.
Result<StreamId> PagedEngine::find_copier() {
  if (!copier_) {
    const Result<StreamId> made = device_.create_stream();
    if (!made.ok()) return made.status();
    copier_ = *made;
  }
  return *copier_;
}

// Waits for it, and once more if that fails: the copies should be over before anything goes on.
// Where they are not, free_stale_backups leaves their memory alone.
Status PagedEngine::copy_backups(const std::vector<Extent*>& extents, CopyWay way,
                                 StreamId copier) {
  Status copied;
  for (size_t i = 0; copied.ok() && i < extents.size(); ++i) {
    const auto& [memory, range] = extents[i]->backup;
    copied = way == CopyWay::kToHost
                 ? device_.copy_to_host(memory, range.begin, range.bytes, copier)
                 : device_.copy_to_device(range.begin, memory, range.bytes, copier);
  }
  Status waited = device_.synchronize_stream(copier);
  if (!waited.ok()) (void)device_.synchronize_stream(copier).ok();
  return copied.ok() ? std::move(waited) : std::move(copied);
}

Status PagedEngine::drop_extents(const std::vector<PagedPool*>& pools) {
  std::vector<Extent*> leaving;
  for (const PagedPool* pool : pools) {
    for (const auto& extent : pool->extents) leaving.push_back(extent.get());
  }
  announce_leaving(leaving);
  Status dropped;
  for (Extent* extent : leaving) {
    if (dropped.ok()) dropped = drop(*extent);
    stay(*extent);
  }
  return dropped;
}

Status PagedEngine::drop(Extent& extent) {
  if (extent.is_dropped) return {};
  for (const Extent::Mapping& mapping : extent.mappings) {
    Slot& slot = mapping.view->slots[mapping.slot];
    if (!slot.is_mapped) continue;
    Status unmapped = device_.unmap({mapping.view->at(slot.offset), slot.bytes});
    if (!unmapped.ok()) return unmapped;
    slot.is_mapped = false;
    slot.is_open = false;
    pack(*mapping.view, mapping.slot);
  }
  if (Status released = device_.release(extent.id); !released.ok()) return released;
  extent.is_dropped = true;
  held_bytes_ -= extent.bytes;
  count_reserved(*extent.arena, extent.is_small, -static_cast<int64_t>(extent.bytes));
  if (extent.shown.bytes != 0) {
    note_memory(TraceAction::kSegmentUnmap, *extent.arena, extent.shown);
  }
  return {};
}

// --- resume -------------------------------------------------------------------------------------

Status PagedEngine::resume_pools(const std::vector<PagedPool*>& pools) {
  std::vector<Extent*> kept;
  for (const PagedPool* pool : pools) {
    if (!pool->is_paused) continue;
    for (const auto& extent : pool->extents) {
      if (Status back = bring_back(*extent); !back.ok()) return back;
      if (extent->backup.memory != nullptr) kept.push_back(extent.get());
    }
  }
  if (!kept.empty()) {
    const Result<StreamId> copier = find_copier();
    if (!copier.ok()) return copier.status();
    MutexUnlock unlocked(mutex_);
    Status restored = copy_backups(kept, CopyWay::kToDevice, *copier);
    if (!restored.ok()) return restored;
  }
  for (PagedPool* pool : pools) {
    pool->is_paused = false;
    forget_backups(*pool);
  }
  return {};
}

Status PagedEngine::bring_back(Extent& extent) {
  if (extent.is_dropped) {
    Result<ExtentId> id = create_again(extent.bytes);
    if (!id.ok() && id.status().is_out_of_memory()) {
      // What others have cached is of less use than what was promised here.
      if (Status released = release_cached({}); !released.ok()) return released;
      id = create_again(extent.bytes);
    }
    if (!id.ok()) return id.status();
    extent.id = *id;
    extent.is_dropped = false;
    held_bytes_ += extent.bytes;
    count_reserved(*extent.arena, extent.is_small, static_cast<int64_t>(extent.bytes));
    if (extent.shown.bytes != 0) {
      note_memory(TraceAction::kSegmentMap, *extent.arena, extent.shown);
    }
  }
  for (const Extent::Mapping& mapping : extent.mappings) {
    Slot& slot = mapping.view->slots[mapping.slot];
    if (slot.is_retired()) continue;  // it was going anyway
    const AddressRange range{mapping.view->at(slot.offset), slot.bytes};
    if (!slot.is_mapped) {
      if (Status mapped = device_.map(range.begin, extent.id); !mapped.ok()) return mapped;
      slot.is_mapped = true;
      remaps_.queue_mapped(range);
    }
    for (size_t i = 0; !slot.is_open && i < accessors_.size(); ++i) {
      Status opened = device_.set_access(range, accessors_[i], Access::kReadWrite);
      if (!opened.ok()) return opened;
    }
    slot.is_open = true;
    pack(*mapping.view, mapping.slot);
  }
  return {};
}

Result<ExtentId> PagedEngine::create_again(size_t bytes) {
  if (is_above_limit(bytes)) {
    return Status::out_of_memory(text("resuming needs ", format_bytes(bytes), " more, but only ",
                                      format_bytes(limit_bytes()),
                                      " are allowed to this process: free or pause something, or "
                                      "raise the limit, and resume again"));
  }
  CreateOptions how;
  how.export_fd = is_shareable();
  return device_.create(bytes, how);
}

// --- backups
// --------------------------------------------------------------------------------------

void PagedEngine::forget_backup(Extent& extent) {
  if (extent.backup.memory != nullptr) stale_backups_.push_back(extent.backup.memory);
  extent.backup = {};
}

void PagedEngine::forget_backups(PagedPool& pool) {
  for (const auto& extent : pool.extents) forget_backup(*extent);
}

// What may still be copied to, because a wait failed, stays; so does what the device does not take
// back. Both are tried again with the next change or trim.
void PagedEngine::free_stale_backups() {
  if (stale_backups_.empty()) return;
  const RelaxedCapture relaxed(device_);  // captures may begin while we are unlocked
  if (!relaxed.status().ok()) return;
  const Result<bool> are_over = device_.is_idle(*copier_);
  if (!are_over.ok() || !*are_over) return;
  std::vector<void*> stale = std::exchange(stale_backups_, {});
  Status failed;
  {
    MutexUnlock unlocked(mutex_);
    std::erase_if(stale, [&](void* memory) {
      Status freed = device_.free_host(memory);
      const bool is_gone = freed.ok();
      if (!is_gone) failed = std::move(freed);
      return is_gone;
    });
  }
  stale_backups_.insert(stale_backups_.end(), stale.begin(), stale.end());
  if (!failed.ok()) defer_error(std::move(failed));
}

}  // namespace ashlar::paged
