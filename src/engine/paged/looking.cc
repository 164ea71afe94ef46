// SPDX-License-Identifier: Apache-2.0
//
// What the engine tells: acts as they happen, its blocks one by one, and what it allows. What it
// holds as a whole is in snapshot.cc.
#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {

// --- hooks
// ----------------------------------------------------------------------------------------

void PagedEngine::add_tracker(TraceTracker tracker) { hooks_.add_tracker(std::move(tracker)); }

void PagedEngine::add_oom_observer(std::function<void(const OomNotice&)> observer) {
  hooks_.add_oom_observer(std::move(observer));
}

void PagedEngine::add_rejection_observer(std::function<void(const OomNotice&)> observer) {
  hooks_.add_rejection_observer(std::move(observer));
}

void PagedEngine::add_free_memory_callback(std::function<bool()> callback) {
  hooks_.add_free_memory_callback(std::move(callback));
}

// What is about to be unmapped is not told as mapped: nobody would tell that it is gone.
Status PagedEngine::add_remap_observer(RemapObserver observer) {
  {
    MutexLock lock(mutex_);
    std::vector<AddressRange> mapped;
    for (const auto& [id, pool] : pools_) {
      for (const auto& view : pool->views) {
        for (const Slot& slot : view->slots) {
          const bool is_here = slot.extent != nullptr && slot.is_mapped && !slot.is_announced;
          if (is_here && !slot.extent->is_leaving) {
            mapped.push_back({view->at(slot.offset), slot.bytes});
          }
        }
      }
    }
    remaps_.add(std::move(observer), mapped);
  }
  remaps_.notify();
  return {};
}

// Under the lock of the block's arena, so that entries of one address are in order.
void PagedEngine::note_watched(TraceAction action, const PagedBlock& block, size_t bytes,
                               StackId stack) {
  hooks_.record(act_on(action, block, bytes, stack));
}

void PagedEngine::note_free(const PagedBlock& block, StackId stack) {
  hooks_.record(act_of_free(block, stack));
}

void PagedEngine::note_memory(TraceAction action, const Arena& arena, AddressRange range) {
  if (!hooks_.is_observed()) return;
  TraceEntry entry;
  entry.action = action;
  entry.address = range.begin;
  entry.bytes = range.bytes;
  entry.stream = arena.stream;
  entry.pool = arena.pool.id;
  entry.stack = caller_stack_;
  hooks_.record(entry);
}

// --- blocks
// ---------------------------------------------------------------------------------------

template <typename Visit>
void PagedEngine::for_each_block(const Visit& visit) const {
  for (const auto& [id, pool] : pools_) {
    AllArenas arenas(*pool);
    for (const auto& view : pool->views) {
      for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
        visit(*block);
      }
    }
  }
}

Result<std::vector<DeviceAddress>> PagedEngine::live_in_pool(PoolId pool) const {
  MutexLock lock(mutex_);
  if (find_pool(pool) == nullptr) return no_such_pool(pool);
  std::vector<DeviceAddress> live;
  for_each_block([&](const PagedBlock& block) {
    if (block.is_allocated() && block.arena->pool.id == pool) live.push_back(block.address);
  });
  std::sort(live.begin(), live.end());
  return live;
}

Status PagedEngine::annotate(DeviceAddress address, const std::string& said) {
  MutexLock lock(mutex_);
  bool is_found = false;
  for_each_block([&](const PagedBlock& block) {
    if (!block.is_allocated() || block.address != address) return;
    is_found = true;
    TraceEntry entry = make_entry(TraceAction::kAnnotate, block, block.requested_bytes);
    entry.pool = block.arena->pool.id;
    hooks_.record_annotation(entry, said);
  });
  return is_found ? Status() : Status::invalid_argument(text("no live block starts at ", address));
}

// The largest block that some stream could have at once.
size_t PagedEngine::largest_cached_bytes() const {
  MutexLock lock(mutex_);
  size_t largest_bytes = 0;
  size_t run_bytes = 0;
  const View* view = nullptr;
  for_each_block([&](const PagedBlock& block) {
    if (block.arena->pool.is_paused) return;
    if (block.view != view || !block.is_free()) run_bytes = 0;
    view = block.view;
    if (block.is_free()) run_bytes += block.bytes;
    largest_bytes = std::max(largest_bytes, run_bytes);
  });
  return largest_bytes;
}

std::vector<ExpandableUse> PagedEngine::expandable_segments() const {
  MutexLock lock(mutex_);
  std::vector<ExpandableUse> uses;
  for (const auto& [id, pool] : pools_) {
    AllArenas arenas(*pool);
    for (const auto& view : pool->views) {
      if (view->is_plain) continue;
      size_t home_bytes = 0;
      for (const Slot& slot : view->slots) {
        const bool is_home = slot.extent != nullptr && slot.extent->home == view.get();
        if (is_home && slot.is_mapped) home_bytes += slot.bytes;
      }
      uses.push_back({view->arena->stream, view->is_small, view->reserved, home_bytes});
    }
  }
  return uses;
}

// --- sharing and peers
// ------------------------------------------------------------------------------

void PagedEngine::pin(Block* block) {
  BiasedLock lock(static_cast<PagedBlock*>(block)->arena->lock);
  ASHLAR_CHECK(block->is_allocated() || block->pin_count > 0);
  ++block->pin_count;
}

// A held block that was freed is pending and waits for no event yet: those are recorded now, so
// that work queued since the free counts too.
void PagedEngine::unpin(Block* held) {
  auto* block = static_cast<PagedBlock*>(held);
  {
    MutexLock lock(mutex_);
    {
      BiasedLock arena_lock(block->arena->lock);
      ASHLAR_CHECK(block->pin_count > 0);
      --block->pin_count;
      if (block->pin_count > 0 || block->is_allocated()) return;
    }
    caller_stack_ = {};
    if (Status freed = finish_free(block); !freed.ok()) defer_error(std::move(freed));
    give_back_to_sources();
    refresh();
  }
  hooks_.notify();
}

BlockMemory PagedEngine::block_memory(const Block* of) const {
  MutexLock lock(mutex_);
  const auto& block = static_cast<const PagedBlock&>(*of);
  const View& view = *block.view;
  BlockMemory memory;
  if (view.is_plain) {
    if (view.source != nullptr) memory.origin = BlockMemory::Origin::kSource;
    memory.range = view.reserved;
    return memory;
  }
  if (block.arena->pool.is_paused) {
    memory.origin = BlockMemory::Origin::kPaused;
    return memory;
  }
  memory.origin = BlockMemory::Origin::kExtents;
  memory.can_export_fd = is_shareable();
  const size_t begin = view.offset_of(block);
  const size_t first = view.slot_at(begin);
  memory.range.begin = view.at(view.slots[first].offset);
  memory.granule_bytes = view.slots[first].bytes;
  for (size_t i = first; i < view.slots.size() && view.slots[i].offset < begin + block.bytes; ++i) {
    memory.extents.push_back(view.slots[i].extent->id);
    memory.range.bytes += view.slots[i].bytes;
  }
  return memory;
}

// Every mapping there is, one by one: where the device refuses, those before it stay open, which
// does no harm, and are opened again with the next try.
Status PagedEngine::add_accessor(DeviceIndex accessor) {
  MutexLock lock(mutex_);
  if (std::find(accessors_.begin(), accessors_.end(), accessor) != accessors_.end()) return {};
  for (const auto& [id, pool] : pools_) {
    for (const auto& view : pool->views) {
      for (const Slot& slot : view->slots) {
        if (slot.extent == nullptr || !slot.is_mapped) continue;
        Status opened =
            device_.set_access({view->at(slot.offset), slot.bytes}, accessor, Access::kReadWrite);
        if (!opened.ok()) return opened;
      }
    }
  }
  accessors_.push_back(accessor);
  return {};
}

bool PagedEngine::is_accessor(DeviceIndex device) const {
  MutexLock lock(mutex_);
  return std::find(accessors_.begin(), accessors_.end(), device) != accessors_.end();
}

// --- settings
// -------------------------------------------------------------------------------------

Status PagedEngine::set_memory_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    return Status::invalid_argument(text("a memory fraction of ", fraction, " (expected 0 to 1)"));
  }
  MutexLock lock(mutex_);
  memory_fraction_ = fraction;
  return {};
}

double PagedEngine::memory_fraction() const {
  MutexLock lock(mutex_);
  return memory_fraction_;
}

void PagedEngine::set_caching(bool caching) {
  MutexLock lock(mutex_);
  caching_ = caching;
  refresh();
}

bool PagedEngine::is_caching() const {
  MutexLock lock(mutex_);
  return caching_;
}

// Views reserve what they need, whatever the class of their stream; the name is kept.
void PagedEngine::set_stream_class(StreamId stream, std::string name) {
  MutexLock lock(mutex_);
  if (name.empty()) {
    stream_classes_.erase(stream);
  } else {
    stream_classes_[stream] = std::move(name);
  }
}

std::string PagedEngine::stream_class(StreamId stream) const {
  MutexLock lock(mutex_);
  const auto found = stream_classes_.find(stream);
  return found == stream_classes_.end() ? std::string() : found->second;
}

void PagedEngine::set_default_class_fraction(const std::string&, double) {}

}  // namespace ashlar::paged
