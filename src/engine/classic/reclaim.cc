// SPDX-License-Identifier: Apache-2.0
//
// Memory back to the device: the rungs of the ladder that an allocation climbs when the device is
// full, trim, and collection by age.
#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "device/relaxed_capture.h"
#include "device/stream_use.h"
#include "engine/classic/act.h"
#include "engine/device_processes.h"

namespace ashlar::classic {

// --- the ladder
// -----------------------------------------------------------------------------------

Result<ClassicBlock*> ClassicEngine::reclaim_and_retry(Search& search, Status why) {
  if (search.rejected) return why;
  if (ClassicBlock* borrowed = borrow_from_overflow_pools(search)) return borrowed;
  if (release_oversize(search)) {
    give_back_to_sources();
    Result<ClassicBlock*> grown = grow(search, false);
    if (grown.ok() || !grown.status().is_out_of_memory()) return grown;
  }
  if (waiting_.is_capturing({&device_, search.request.stream})) return why;
  // PyTorch waits for everything and gives everything back in one go. Waiting alone often helps
  // already, and then the cache stays warm.
  if (!options_.pytorch_compatible) {
    if (Status waited = wait_for_waiting({}); !waited.ok()) return waited;
    if (ClassicBlock* block = take_cached(search)) return block;
  }
  return empty_and_retry(search);
}

// Whoever frees while we are unlocked does so into the cache, after we emptied it: so it is emptied
// again, for as long as that happens. While we stay locked, as PyTorch does, it is done once.
Result<ClassicBlock*> ClassicEngine::empty_and_retry(Search& search) {
  while (true) {
    const int64_t freed_before = stats_.allocation.all.fallen;
    if (Status released = release_cached({}); !released.ok()) return released;
    Result<ClassicBlock*> grown = grow(search, true);
    const bool is_full = !grown.ok() && grown.status().is_out_of_memory();
    if (!is_full || stats_.allocation.all.fallen == freed_before) return grown;
  }
}

// Cached blocks of pools that said they may serve others, as long as somebody holds them; such a
// pool does not grow for it.
ClassicBlock* ClassicEngine::borrow_from_overflow_pools(const Search& search) {
  if (search.pool->owner() != nullptr) return nullptr;
  for (auto& [id, pool] : pools_) {
    if (!pool->options.use_on_oom || routes_.is_freeable(id)) continue;
    FreePool& lender = search.pool->is_small() ? pool->small : pool->large;
    const Wanted wanted{search.request.stream, search.block_bytes, false};
    if (ClassicBlock* block = lender.take_best_fit(wanted, sizes_)) return block;
  }
  return nullptr;
}

// With a limit on splitting, blocks above it serve few requests: give back one that is large
// enough, or as many of the largest as make up for the request.
bool ClassicEngine::release_oversize(const Search& search) {
  if (sizes_.max_split_bytes() == SIZE_MAX) return false;
  FreePool& pool = *search.pool;
  const StreamId stream = search.request.stream;
  const size_t wanted_bytes = std::max(search.block_bytes, sizes_.max_split_bytes());
  ClassicBlock* fitting = pool.first_of_at_least(stream, wanted_bytes);
  if (fitting != nullptr && fitting->expandable == nullptr && !fitting->is_split()) {
    return release_segment(fitting);
  }
  size_t released_bytes = 0;
  while (released_bytes < wanted_bytes) {
    ClassicBlock* block = pool.largest(stream);
    if (block == nullptr) return false;
    // A split one is never as large while the limit stands, but the limit is not ours to trust.
    if (block->bytes < sizes_.max_split_bytes() || block->expandable != nullptr ||
        block->is_split()) {
      return false;
    }
    released_bytes += block->bytes;
    if (!release_segment(block)) return false;
  }
  return true;
}

// Gives back the older half of the unused large segments, until we hold less than the threshold.
void ClassicEngine::collect_by_age() {
  if (memory_fraction_ >= 1 || options_.garbage_collection_threshold <= 0) return;
  const auto limit = static_cast<double>(limit_bytes());
  const auto target = static_cast<size_t>(options_.garbage_collection_threshold * limit);
  if (held_bytes_ <= target) return;
  const size_t wanted_bytes = held_bytes_ - target;
  size_t released_bytes = 0;
  for (bool any = true; any && released_bytes < wanted_bytes;) {
    any = false;
    uint64_t total_age = 0;
    uint64_t count = 0;
    for (const ClassicBlock* block : large_.blocks()) {
      if (block->is_split()) continue;
      total_age += large_.search_count - block->free_since;
      ++count;
    }
    if (count == 0) return;
    const double average = static_cast<double>(total_age) / static_cast<double>(count);
    for (ClassicBlock *block = large_.blocks().first(), *next = nullptr; block != nullptr;
         block = next) {
      next = FreePool::Blocks::next(block);
      const auto age = static_cast<double>(large_.search_count - block->free_since);
      if (block->is_split() || block->expandable != nullptr || age < average) continue;
      const size_t block_bytes = block->bytes;
      if (!release_segment(block)) continue;
      any = true;
      released_bytes += block_bytes;
    }
  }
}

// --- trim
// -----------------------------------------------------------------------------------------

Status ClassicEngine::trim(PoolId pool, StackId stack) {
  Act act(*this, stack);
  if (!pool.is_default() && find_pool(pool) == nullptr) return no_such_pool(pool);
  Status released = release_cached(pool);
  return released.ok() ? std::exchange(deferred_error_, {}) : released;
}

Status ClassicEngine::wait_for_waiting(PoolId pool) {
  ++stats_.sync_all_streams;
  std::function<bool(const Block&)> wanted;
  if (!pool.is_default()) {
    wanted = [pool](const Block& block) {
      const PrivatePool* owner = as_classic(&block)->pool->owner();
      return owner != nullptr && owner->id == pool;
    };
  }
  std::vector<Block*> finished;
  Status waited = waiting_.wait(finished, wanted);
  make_all_free(finished);
  return waited;
}

Status ClassicEngine::release_cached(PoolId pool) {
  if (pool.is_default() && waiting_.capture_count() == 0) {
    if (Status waited = wait_for_waiting({}); !waited.ok()) return waited;
    release_blocks(large_);
    release_blocks(small_);
  }
  for (const auto& [id, candidate] : pools_) {
    const bool is_meant = routes_.is_freeable(id) && (pool.is_default() || id == pool);
    if (!is_meant) continue;
    if (!pool.is_default()) {
      if (Status waited = wait_for_waiting(pool); !waited.ok()) return waited;
    }
    release_blocks(candidate->small);
    release_blocks(candidate->large);
  }
  erase_empty_pools(pool);
  give_back_to_sources();
  wait_for_sources();
  return pool.is_default() ? empty_source() : Status();
}

void ClassicEngine::erase_empty_pools(PoolId pool) {
  for (auto it = pools_.begin(); it != pools_.end();) {
    const PrivatePool& candidate = *it->second;
    const bool is_meant =
        routes_.is_freeable(candidate.id) && (pool.is_default() || candidate.id == pool);
    const bool is_gone = is_meant && candidate.segment_count == 0 && candidate.search_count == 0;
    if (is_gone) {
      if (candidate.has_custom_source()) return_queue_.add(candidate.options.source);
      stats_.pools.erase(candidate.id);
      routes_.forget(candidate.id);
    }
    it = is_gone ? pools_.erase(it) : std::next(it);
  }
}

void ClassicEngine::release_blocks(FreePool& pool) {
  std::vector<ClassicBlock*> to_unmap;
  for (ClassicBlock *block = pool.blocks().first(), *next = nullptr; block != nullptr;
       block = next) {
    next = FreePool::Blocks::next(block);
    if (block->expandable != nullptr) {
      to_unmap.push_back(block);
    } else if (!block->is_split()) {
      release_segment(block);
    }
  }
  for (ClassicBlock* block : to_unmap) {
    unmap_part(block, {block->address, block->bytes}, TrimWait::kForWork);
  }
  destroy_empty_expandables(pool);
}

void ClassicEngine::destroy_empty_expandables(FreePool& pool) {
  for (ClassicBlock *block = pool.unmapped().first(), *next = nullptr; block != nullptr;
       block = next) {
    next = FreePool::UnmappedBlocks::next(block);
    if (!block->is_split()) destroy_expandable(block);
  }
}

// A whole plain segment. Work that used it may still be queued in its stream, and a device need not
// wait by itself. If the device refuses to take it back, the next call says so.
bool ClassicEngine::release_segment(ClassicBlock* block, TrimWait wait) {
  if (!waiting_.is_waitable({&device_, block->stream})) return false;
  FreePool& pool = *block->pool;
  PrivatePool* owner = pool.owner();
  const std::shared_ptr<SegmentSource>& source = source_of(pool);
  const RelaxedCapture relaxed(device_, waiting_.capture_count());
  Status freed = relaxed.status();
  const bool may_wait = wait == TrimWait::kForWork && !passes_each(pool);
  if (freed.ok() && may_wait) freed = waiting_.wait_for_stream({&device_, block->stream});
  if (freed.ok() && source == nullptr) freed = device_.free(block->address);
  if (!freed.ok()) {
    defer_error(freed);
    return false;
  }
  if (source != nullptr) return_queue_.add(source, {block->address, block->bytes});
  pool.erase(block);
  note(TraceAction::kSegmentFree, *block, block->bytes);
  if (owner != nullptr) --owner->segment_count;
  count_given_back(*block, block->bytes);
  blocks_.give_back(block);
  return true;
}

void ClassicEngine::give_back_to_sources() {
  while (!return_queue_.empty()) {
    Pause pause(*this);
    return_queue_.flush(device_);
  }
}

// What other threads are giving back is nobody's until it arrives.
void ClassicEngine::wait_for_sources() {
  if (!return_queue_.is_flushed_elsewhere()) return;
  Pause pause(*this);
  return_queue_.wait_for_others();
}

Status ClassicEngine::empty_source() {
  if (!source_.keeps) return {};
  Pause pause(*this);
  const RelaxedCapture relaxed(device_);  // captures may begin meanwhile
  return relaxed.status().ok() ? trim_source() : relaxed.status();
}

void ClassicEngine::pass_on_left() {
  for (FreePool* pool : {&small_, &large_}) {
    if (pool->blocks().first() != nullptr) release_blocks(*pool);
  }
  give_back_to_sources();
}

size_t ClassicEngine::unmap_part(ClassicBlock* block, AddressRange part, TrimWait wait) {
  if (!waiting_.is_waitable({&device_, block->stream})) return 0;
  const AddressRange whole = block->expandable->granules_inside(part);
  if (whole.bytes == 0) return 0;
  const RelaxedCapture relaxed(device_, waiting_.capture_count());
  Status unmapped = relaxed.status();
  const bool may_wait = wait == TrimWait::kForWork;
  if (unmapped.ok() && may_wait) unmapped = waiting_.wait_for_stream({&device_, block->stream});
  if (unmapped.ok()) unmapped = block->expandable->unmap(whole, deferred_error_);
  if (!unmapped.ok()) {
    defer_error(unmapped);
    return 0;
  }
  FreePool& pool = *block->pool;
  pool.erase(block);
  const size_t before_bytes = whole.begin - block->address;
  const size_t after_bytes = block->end() - whole.end();
  block->address = whole.begin;
  block->bytes = whole.bytes;
  const DeviceAddress begin = whole.begin;
  if (before_bytes > 0) {
    const DeviceAddress before(begin.value() - before_bytes);
    pool.insert(new_part(*block, {before, before_bytes}, block->previous, block));
  }
  if (after_bytes > 0) {
    pool.insert(new_part(*block, {whole.end(), after_bytes}, block, block->next));
  }
  block->state = BlockState::kUnmapped;
  merge(block, block->previous);
  merge(block, block->next);
  pool.insert_unmapped(block);
  count_given_back(*block, whole.bytes);
  ClassicBlock gone = *block;
  gone.address = begin;
  note(TraceAction::kSegmentUnmap, gone, whole.bytes);
  return whole.bytes;
}

// If the device keeps the addresses, so does the segment, and the next trim tries again.
void ClassicEngine::destroy_expandable(ClassicBlock* block) {
  ExpandableSegment* segment = block->expandable;
  if (Status freed = segment->free_addresses(); !freed.ok()) {
    defer_error(freed);
    return;
  }
  block->pool->erase_unmapped(block);
  if (PrivatePool* owner = block->pool->owner()) --owner->segment_count;
  blocks_.give_back(block);
  std::erase_if(expandable_, [&](const auto& each) { return each.get() == segment; });
}

// --- limits and the report
// ------------------------------------------------------------------------

Status ClassicEngine::set_memory_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    return Status::invalid_argument(text("a memory fraction of ", fraction, " (expected 0 to 1)"));
  }
  MutexLock lock(mutex_);
  memory_fraction_ = fraction;
  return {};
}

double ClassicEngine::memory_fraction() const {
  MutexLock lock(mutex_);
  return memory_fraction_;
}

Status ClassicEngine::report_oom(const Search& search, const Status& why) {
  const Result<MemoryStats> use = device_.memory_stats();
  const size_t device_free_bytes = use.ok() ? use->free_bytes : 0;
  const bool limited = memory_fraction_ < 1;
  const PrivatePool* owner = search.pool->owner();
  const bool has_source = source_of(*search.pool) != nullptr;
  const auto allocated = static_cast<size_t>(stats_.allocated_bytes.all.current);
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes.all.current);
  const DeviceIndex index = device_.properties().index;

  std::string message = text("tried to allocate ", format_bytes(search.request.bytes),
                             " (a segment of ", format_bytes(search.segment_bytes), ") on device ",
                             index, ", which has ", format_bytes(capacity_bytes_), " in all and ",
                             format_bytes(device_free_bytes), " free. ");
  if (has_source && owner != nullptr) {
    message += text("Pool ", owner->id, " has a source of its own: ", why.message(), ". ");
  } else if (has_source) {
    message += text("The memory comes from elsewhere: ", why.message(), ". ");
  }
  if (limited) message += text(format_bytes(limit_bytes()), " are allowed to this process. ");
  message += text(format_bytes(allocated), " are allocated; ", format_bytes(reserved - allocated),
                  " are reserved but not allocated.");
  if (!options_.expandable_segments && !has_source && reserved - allocated > search.segment_bytes) {
    message += " If that is fragmentation, expandable_segments:True may avoid it.";
  }
  message += reserve_hint(search);

  if (!search.rejected) {
    ++stats_.ooms;
    ClassicBlock nothing;
    nothing.address = DeviceAddress(device_free_bytes);
    nothing.stream = search.request.stream;
    nothing.pool = search.pool;
    note(TraceAction::kOom, nothing, search.block_bytes);
  }
  const OomNotice notice{index, search.segment_bytes, limit_bytes(), device_free_bytes};
  Pause pause(*this);
  hooks_.notify_oom(notice, search.rejected);
  // What a limit or a source of its own refused is nobody else's fault.
  if (device_free_bytes < search.segment_bytes)
    message += describe_device_processes(device_, reserved);
  return Status::out_of_memory(std::move(message));
}

}  // namespace ashlar::classic
