// Allocate, free, record_stream. `allocate_locked` is the table of contents for the rest.
#include "engine/classic/classic_engine.h"

#include <algorithm>

#include "base/text.h"
#include "device/relaxed_capture.h"

namespace ashlar::classic {

ClassicEngine::ClassicEngine(Device& device, const AllocatorOptions& options)
    : device_(device),
      options_(options),
      sizes_(options),
      capacity_bytes_(device.properties().capacity_bytes),
      accessors_{device.properties().index},
      memory_fraction_(options.memory_fraction) {
  stats_.max_split_bytes =
      options.max_split_bytes ? static_cast<int64_t>(*options.max_split_bytes) : -1;
}

// Plain segments are found by their first blocks; expandable ones know what they have mapped.
ClassicEngine::~ClassicEngine() {
  MutexLock lock(mutex_);
  (void)device_.synchronize_device().ok();
  std::vector<const Block*> first_blocks;
  const auto consider = [&](const Block* block) {
    if (block->previous == nullptr && block->expandable == nullptr) first_blocks.push_back(block);
  };
  std::for_each(active_.begin(), active_.end(), consider);
  std::vector<const FreePool*> all = {&large_, &small_};
  for (const auto& [id, pool] : pools_) all.insert(all.end(), {&pool->large, &pool->small});
  for (const FreePool* pool : all) {
    std::for_each(pool->blocks().begin(), pool->blocks().end(), consider);
  }
  for (const Block* block : first_blocks) {
    const PrivatePool* owner = block->pool->owner();
    if (owner != nullptr && owner->has_custom_source()) {
      size_t bytes = 0;
      for (const Block* part = block; part != nullptr; part = part->next) bytes += part->bytes;
      owner->options.source->free(block->address, bytes);
    } else {
      (void)device_.free(block->address).ok();
    }
  }
}

// --- allocate -----------------------------------------------------------------------------------

Result<Block*> ClassicEngine::allocate(const Request& request) {
  if (request.bytes == 0) return Status::usage("cannot allocate 0 B");
  if (request.bytes >= kUnreasonableBytes) {
    return Status::out_of_memory(
        text("tried to allocate ", request.bytes, " B: no device has an exabyte"));
  }
  Result<Block*> block = [&] {
    MutexLock lock(mutex_);
    Search search;
    search.request = request;
    return allocate_locked(search);
  }();
  tell_trackers();
  return block;
}

Result<Block*> ClassicEngine::allocate_locked(Search& search) {
  if (!late_error_.ok()) return std::exchange(late_error_, {});
  const StreamId stream = search.request.stream;
  if (!is_capturing({&device_, stream})) {
    if (Status collected = collect_pending(); !collected.ok()) return collected;
  } else if (options_.capture_stream_reuse) {
    reuse_within_capture(stream);
  }
  search.block_bytes = sizes_.block_bytes(search.request.bytes);
  search.segment_bytes = sizes_.segment_bytes(search.block_bytes);
  search.pool = &pool_for(search.block_bytes, stream);
  const PrivatePool* owner = search.pool->owner();
  search.expandable =
      options_.expandable_segments && (owner == nullptr || !owner->has_custom_source());

  // Whoever lets go of the pool while we are unlocked must not take it away.
  PrivatePool* pinned = search.pool->owner();
  if (pinned != nullptr) ++pinned->search_count;
  Result<Block*> found = find_or_grow(search);
  if (pinned != nullptr) --pinned->search_count;
  return found;
}

Result<Block*> ClassicEngine::find_or_grow(Search& search) {
  Block* block = take_cached(search);
  if (block == nullptr && ask_callbacks()) block = take_cached(search);
  if (block != nullptr) return hand_out(block, search);

  collect_by_age();
  Result<Block*> grown = grow(search, false);
  if (!grown.ok() && grown.status().is_out_of_memory()) {
    grown = reclaim_and_retry(search, grown.status());
  }
  if (!grown.ok()) return grown.status().is_out_of_memory() ? report_oom(search) : grown.status();
  return hand_out(*grown, search);
}

Block* ClassicEngine::take_cached(const Search& search) {
  const bool ages_count = memory_fraction_ < 1 && options_.garbage_collection_threshold > 0;
  if (ages_count) ++search.pool->search_count;
  return search.pool->take_best_fit({search.request.stream, search.block_bytes, search.expandable},
                                    sizes_);
}

Block* ClassicEngine::hand_out(Block* block, const Search& search, SplitRule rule) {
  const bool was_split = block->is_split();
  const bool is_small = block->pool->is_small();
  const bool is_plain = block->expandable == nullptr;
  const bool exactly = rule == SplitRule::kExactly;
  if (exactly ? block->bytes > search.block_bytes : should_split(*block, search)) {
    Block* rest = block;
    block = split_front(block, search.block_bytes);
    if (is_plain && was_split) {
      stats_.inactive_split_bytes.fall(is_small, static_cast<int64_t>(block->bytes));
    } else if (is_plain) {
      stats_.inactive_split.rise(is_small, 1);
      stats_.inactive_split_bytes.rise(is_small, static_cast<int64_t>(rest->bytes));
    }
  } else if (is_plain && was_split) {
    stats_.inactive_split.fall(is_small, 1);
    stats_.inactive_split_bytes.fall(is_small, static_cast<int64_t>(block->bytes));
  }
  block->state = BlockState::kAllocated;
  block->requested_bytes = search.request.bytes;
  active_.insert(block);
  note(TraceAction::kAlloc, *block, search.request.bytes);
  const auto bytes = static_cast<int64_t>(block->bytes);
  stats_.allocation.rise(is_small, 1);
  stats_.allocated_bytes.rise(is_small, bytes);
  stats_.active.rise(is_small, 1);
  stats_.active_bytes.rise(is_small, bytes);
  stats_.requested_bytes.rise(is_small, static_cast<int64_t>(search.request.bytes));
  if (block->bytes >= sizes_.max_split_bytes()) stats_.oversize_allocations.rise(1);
  return block;
}

bool ClassicEngine::should_split(const Block& block, const Search& search) const {
  const PrivatePool* owner = block.pool->owner();
  if (owner != nullptr && owner->options.no_split) return false;
  const size_t rest = block.bytes - search.block_bytes;
  if (block.pool->is_small() || options_.expandable_segments) return rest >= kMinBlockBytes;
  return search.block_bytes < sizes_.max_split_bytes() && rest > kSmallLimitBytes;
}

// The rest keeps the block and goes back to its pool; the front is a new one.
Block* ClassicEngine::split_front(Block* rest, size_t bytes) {
  Block* front = new_part(*rest, {rest->address, bytes}, rest->previous, rest);
  rest->address = rest->address + bytes;
  rest->bytes -= bytes;
  rest->pool->insert(rest);
  return front;
}

Block* ClassicEngine::new_part(const Block& like, AddressRange range, Block* previous,
                               Block* next) {
  Block* part = blocks_.take();
  part->address = range.begin;
  part->bytes = range.bytes;
  part->stream = like.stream;
  part->pool = like.pool;
  part->expandable = like.expandable;
  part->previous = previous;
  part->next = next;
  if (previous != nullptr) previous->next = part;
  if (next != nullptr) next->previous = part;
  return part;
}

// --- free ---------------------------------------------------------------------------------------

Status ClassicEngine::free(Block* block) {
  const Status freed = [&] {
    MutexLock lock(mutex_);
    return free_locked(block);
  }();
  tell_trackers();
  return freed;
}

void ClassicEngine::free_quietly(Block* block) {
  {
    MutexLock lock(mutex_);
    if (Status freed = free_locked(block); !freed.ok()) late_error_ = freed;
  }
  tell_trackers();
}

Status ClassicEngine::free_locked(Block* block) {
  block->state = BlockState::kPending;
  const bool is_small = block->pool->is_small();
  stats_.allocation.fall(is_small, 1);
  stats_.allocated_bytes.fall(is_small, static_cast<int64_t>(block->bytes));
  note(TraceAction::kFreeRequested, *block, block->requested_bytes);
  if (block->bytes >= sizes_.max_split_bytes()) stats_.oversize_allocations.fall(1);
  return block->hold_count > 0 ? Status() : finish_free(block);
}

Status ClassicEngine::finish_free(Block* block) {
  if (block->uses.empty()) {
    make_free(block);
    return {};
  }
  if (involves_capture(*block)) {
    defer(block);
    return {};
  }
  Status added = pending_.add(block);
  // Some event could not be recorded: it is tried again before the next allocation.
  if (!added.ok()) deferred_.push_back({block, {}});
  return added;
}

void ClassicEngine::make_free(Block* block) {
  note(TraceAction::kFreeCompleted, *block, block->requested_bytes);
  const bool is_small = block->pool->is_small();
  stats_.active.fall(is_small, 1);
  stats_.active_bytes.fall(is_small, static_cast<int64_t>(block->bytes));
  stats_.requested_bytes.fall(is_small, static_cast<int64_t>(block->requested_bytes));
  block->requested_bytes = 0;
  active_.erase(block);
  capture_uses_.erase(block);
  block->state = BlockState::kFree;

  int64_t split_count = 0;
  int64_t split_bytes = 0;
  for (Block* neighbour : {block->previous, block->next}) {
    const size_t merged = merge(block, neighbour);
    if (merged == 0) continue;
    --split_count;
    split_bytes -= static_cast<int64_t>(merged);
  }
  block->pool->insert(block);
  if (block->expandable != nullptr) return;
  if (block->is_split()) {
    ++split_count;
    split_bytes += static_cast<int64_t>(block->bytes);
  }
  if (split_count > 0) stats_.inactive_split.rise(is_small, split_count);
  if (split_count < 0) stats_.inactive_split.fall(is_small, -split_count);
  if (split_bytes > 0) stats_.inactive_split_bytes.rise(is_small, split_bytes);
  if (split_bytes < 0) stats_.inactive_split_bytes.fall(is_small, -split_bytes);
}

// How many bytes the neighbour brought; 0 if it could not be merged. REQUIRES: `into` is free or
// unmapped, and in no pool.
size_t ClassicEngine::merge(Block* into, Block* neighbour) {
  if (neighbour == nullptr || neighbour->state != into->state) return 0;
  if (neighbour == into->previous) {
    into->address = neighbour->address;
    into->previous = neighbour->previous;
    if (into->previous != nullptr) into->previous->next = into;
  } else {
    into->next = neighbour->next;
    if (into->next != nullptr) into->next->previous = into;
  }
  if (neighbour->is_mapped()) {
    neighbour->pool->erase(neighbour);
  } else {
    neighbour->pool->erase_unmapped(neighbour);
  }
  const size_t merged = neighbour->bytes;
  into->bytes += merged;
  blocks_.give_back(neighbour);
  return merged;
}

Status ClassicEngine::record_stream(Block* block, const StreamUse& use) {
  MutexLock lock(mutex_);
  if (use.device == &device_ && use.stream == block->stream) return {};
  if (std::find(block->uses.begin(), block->uses.end(), use) == block->uses.end()) {
    block->uses.push_back(use);
  }
  if (is_capturing(use)) capture_uses_[block].push_back(use);
  return {};
}

Status ClassicEngine::collect_pending() {
  if (!deferred_.empty()) {
    if (Status resolved = resolve_deferred(); !resolved.ok()) return resolved;
  }
  if (pending_.empty()) return {};
  std::optional<RelaxedCapture> relaxed;
  if (capture_count_ != 0) relaxed.emplace(device_);
  if (relaxed && !relaxed->status().ok()) return relaxed->status();
  std::vector<Block*> finished;
  Status collected = pending_.collect_finished(finished);
  for (Block* block : finished) make_free(block);
  return collected;
}

// --- looking and hooks --------------------------------------------------------------------------

AllocatorStats ClassicEngine::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

void ClassicEngine::reset_peak_stats() {
  MutexLock lock(mutex_);
  stats_.reset_peaks();
}

void ClassicEngine::reset_total_stats() {
  MutexLock lock(mutex_);
  stats_.reset_totals();
}

void ClassicEngine::add_tracker(TraceTracker tracker) {
  MutexLock lock(mutex_);
  trackers_.push_back(std::move(tracker));
}

void ClassicEngine::add_oom_observer(std::function<void(const OomNotice&)> observer) {
  MutexLock lock(mutex_);
  oom_observers_.push_back(std::move(observer));
}

void ClassicEngine::add_rejection_observer(std::function<void(const OomNotice&)> observer) {
  MutexLock lock(mutex_);
  rejection_observers_.push_back(std::move(observer));
}

void ClassicEngine::add_free_memory_callback(std::function<bool()> callback) {
  MutexLock lock(mutex_);
  callbacks_.push_back(std::move(callback));
}

// All of them are asked, whatever the first ones say.
bool ClassicEngine::ask_callbacks() {
  if (callbacks_.empty()) return false;
  const std::vector<std::function<bool()>> callbacks = callbacks_;
  bool any_freed = false;
  MutexUnlock unlocked(mutex_);
  for (const std::function<bool()>& callback : callbacks) any_freed |= callback();
  return any_freed;
}

void ClassicEngine::note(TraceAction action, const Block& block, size_t bytes) {
  if (trackers_.empty()) return;
  const PrivatePool* owner = block.pool->owner();
  TraceEntry entry;
  entry.action = action;
  entry.device = device_.properties().index;
  entry.address = block.address;
  entry.bytes = bytes;
  entry.stream = block.stream;
  entry.pool = owner == nullptr ? PoolId{} : owner->id;
  entries_.push_back(entry);
}

void ClassicEngine::tell_trackers() {
  MutexLock lock(mutex_);
  if (is_telling_) return;
  is_telling_ = true;
  while (!entries_.empty()) {
    const std::vector<TraceEntry> entries = std::exchange(entries_, {});
    const std::vector<TraceTracker> trackers = trackers_;
    MutexUnlock unlocked(mutex_);
    for (const TraceEntry& entry : entries) {
      for (const TraceTracker& tracker : trackers) tracker(entry);
    }
  }
  is_telling_ = false;
}

}  // namespace ashlar::classic
