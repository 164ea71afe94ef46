// SPDX-License-Identifier: Apache-2.0
//
// Allocate, free, record_stream. `allocate_locked` is the table of contents for the rest.
#include "engine/classic/classic_engine.h"

#include "base/text.h"
#include "engine/classic/act.h"

namespace ashlar::classic {
namespace {

// As in PyTorch, a device without virtual memory has plain segments only, whatever the option says.
AllocatorOptions supported(AllocatorOptions options, const DeviceProperties& properties) {
  options.expandable_segments = options.expandable_segments && properties.has_virtual_memory;
  return options;
}

}  // namespace

ClassicEngine::ClassicEngine(Device& device, const AllocatorOptions& options, EngineSource source)
    : device_(device),
      options_(supported(options, device.properties())),
      source_(std::move(source)),
      sizes_(options),
      capacity_bytes_(device.properties().capacity_bytes),
      waiting_(device, options.capture_stream_reuse),
      accessors_{device.properties().index},
      memory_fraction_(options.memory_fraction),
      caching_(options.caching),
      hooks_(history_, device.properties().index) {
  stats_.max_split_bytes =
      options.max_split_bytes ? static_cast<int64_t>(*options.max_split_bytes) : -1;
}

// Plain segments are found by their first blocks; expandable ones know what they have mapped.
ClassicEngine::~ClassicEngine() {
  (void)device_.synchronize_device().ok();
  {
    MutexLock lock(mutex_);
    blocks_.for_each([&](const ClassicBlock* block) {
      if (block->previous != nullptr || block->expandable != nullptr) return;
      if (const std::shared_ptr<SegmentSource>& source = source_of(*block->pool)) {
        size_t bytes = 0;
        for (const ClassicBlock* part = block; part != nullptr; part = part->next)
          bytes += part->bytes;
        return_queue_.add(source, {block->address, bytes});
      } else {
        (void)device_.free(block->address).ok();
      }
    });
  }
  return_queue_.flush(device_);
}

// --- allocate -----------------------------------------------------------------------------------

Result<Block*> ClassicEngine::allocate(const AllocationRequest& request) {
  if (request.bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
  if (request.bytes >= kUnreasonableBytes) {
    return Status::out_of_memory(
        text("tried to allocate ", request.bytes, " B: no device has an exabyte"));
  }
  Act act(*this, request.stack);
  Search search;
  search.request = request;
  return allocate_locked(search);
}

Result<ClassicBlock*> ClassicEngine::allocate_locked(Search& search) {
  if (!deferred_error_.ok()) return std::exchange(deferred_error_, {});
  const StreamId stream = search.request.stream;
  if (Status collected = collect_waiting(stream); !collected.ok()) return collected;
  search.block_bytes = sizes_.block_bytes(search.request.bytes);
  search.segment_bytes = sizes_.segment_bytes(search.block_bytes);
  search.pool = &pool_for(search.block_bytes, stream);
  search.expandable = options_.expandable_segments && source_of(*search.pool) == nullptr;

  // What a graph has in it must be there when it is launched, freed or not.
  const bool is_cached = caching_ || waiting_.is_capturing({&device_, stream});

  // Whoever lets go of the pool while we are unlocked must not take it away.
  PrivatePool* pinned = search.pool->owner();
  if (pinned != nullptr) ++pinned->search_count;
  const bool caches = is_cached && !passes_each(*search.pool);
  Result<ClassicBlock*> found = caches ? find_or_grow(search) : allocate_uncached(search);
  if (pinned != nullptr) --pinned->search_count;
  return found;
}

Result<ClassicBlock*> ClassicEngine::find_or_grow(Search& search) {
  ClassicBlock* block = take_cached(search);
  if (block == nullptr && ask_callbacks()) block = take_cached(search);
  if (block != nullptr) return hand_out(block, search);

  collect_by_age();
  Result<ClassicBlock*> grown = grow(search, false);
  if (!grown.ok() && grown.status().is_out_of_memory()) {
    grown = reclaim_and_retry(search, grown.status());
  }
  if (!grown.ok()) {
    const Status& why = grown.status();
    return why.is_out_of_memory() ? report_oom(search, why) : why;
  }
  return hand_out(*grown, search);
}

// A segment for this block alone, taken and given back with it.
Result<ClassicBlock*> ClassicEngine::allocate_uncached(Search& search) {
  search.expandable = false;
  if (passes_each(*search.pool)) {
    search.block_bytes = search.request.bytes;
    pass_on_left();
  }
  search.segment_bytes = search.block_bytes;
  Result<ClassicBlock*> grown = grow(search, false);
  if (passes_each(*search.pool) && !grown.ok() && grown.status().is_out_of_memory()) {
    if (ask_callbacks()) grown = grow(search, false);
    Search usual = search;
    usual.block_bytes = sizes_.block_bytes(search.request.bytes);
    ClassicBlock* lent = grown.ok() ? nullptr : borrow_from_overflow_pools(usual);
    if (lent != nullptr) return hand_out(lent, usual);
  }
  const bool is_full = !grown.ok() && grown.status().is_out_of_memory() && !search.rejected;
  if (is_full) grown = empty_and_retry(search);
  if (!grown.ok()) {
    const Status& why = grown.status();
    return why.is_out_of_memory() ? report_oom(search, why) : why;
  }
  (*grown)->is_uncached = true;
  return hand_out(*grown, search);
}

ClassicBlock* ClassicEngine::take_cached(const Search& search) {
  const bool ages_count = memory_fraction_ < 1 && options_.garbage_collection_threshold > 0;
  if (ages_count) ++search.pool->search_count;
  return search.pool->take_best_fit({search.request.stream, search.block_bytes, search.expandable},
                                    sizes_);
}

ClassicBlock* ClassicEngine::hand_out(ClassicBlock* block, const Search& search, SplitRule rule) {
  const bool was_split = block->is_split();
  const bool is_small = block->pool->is_small();
  const bool is_plain = block->expandable == nullptr;
  const bool exactly = rule == SplitRule::kExactly;
  if (exactly ? block->bytes > search.block_bytes : should_split(*block, search)) {
    ClassicBlock* rest = block;
    block = split_front(block, search.block_bytes);
    if (is_plain && was_split) {
      count_inactive_split(is_small, 0, -static_cast<int64_t>(block->bytes));
    } else if (is_plain) {
      count_inactive_split(is_small, 1, static_cast<int64_t>(rest->bytes));
    }
  } else if (is_plain && was_split) {
    count_inactive_split(is_small, -1, -static_cast<int64_t>(block->bytes));
  }
  block->state = BlockState::kAllocated;
  block->requested_bytes = search.request.bytes;
  block->stack = search.request.stack;
  note(TraceAction::kAlloc, *block, search.request.bytes);
  count_handed_out(*block);
  return block;
}

bool ClassicEngine::should_split(const ClassicBlock& block, const Search& search) const {
  const PrivatePool* owner = block.pool->owner();
  if (owner != nullptr && owner->options.no_split) return false;
  const size_t rest = block.bytes - search.block_bytes;
  if (block.pool->is_small() || options_.expandable_segments) return rest >= kMinBlockBytes;
  return search.block_bytes < sizes_.max_split_bytes() && rest > kSmallLimitBytes;
}

// The rest keeps the block and goes back to its pool; the front is a new one.
ClassicBlock* ClassicEngine::split_front(ClassicBlock* rest, size_t bytes) {
  ClassicBlock* front = new_part(*rest, {rest->address, bytes}, rest->previous, rest);
  rest->address = rest->address + bytes;
  rest->bytes -= bytes;
  rest->pool->insert(rest);
  return front;
}

ClassicBlock* ClassicEngine::new_part(const ClassicBlock& like, AddressRange range,
                                      ClassicBlock* previous, ClassicBlock* next) {
  ClassicBlock* part = blocks_.take();
  part->address = range.begin;
  part->bytes = range.bytes;
  part->stream = like.stream;
  part->pool = like.pool;
  part->expandable = like.expandable;
  part->stream_usage = like.stream_usage;
  part->segment_stack = like.segment_stack;
  part->previous = previous;
  part->next = next;
  if (previous != nullptr) previous->next = part;
  if (next != nullptr) next->previous = part;
  return part;
}

// --- free ---------------------------------------------------------------------------------------

Status ClassicEngine::free(Block* block, StackId stack) {
  Act act(*this, stack);
  return free_locked(as_classic(block));
}

void ClassicEngine::free_quietly(Block* block, StackId stack) {
  const Status freed = free(block, stack);
  if (freed.ok()) return;
  MutexLock lock(mutex_);
  defer_error(freed);
}

Status ClassicEngine::free_locked(ClassicBlock* block) {
  if (!block->is_allocated()) return double_free_error(*block);
  block->state = BlockState::kPending;
  count_free_requested(*block);
  note(TraceAction::kFreeRequested, *block, block->requested_bytes);
  return block->pin_count > 0 ? Status() : finish_free(block);
}

Status ClassicEngine::finish_free(ClassicBlock* block) {
  if (block->uses.empty()) {
    make_free(block);
    return {};
  }
  return waiting_.add(block);
}

void ClassicEngine::make_all_free(const std::vector<Block*>& finished) {
  for (Block* block : finished) make_free(as_classic(block));
}

void ClassicEngine::make_free(ClassicBlock* block) {
  note(TraceAction::kFreeCompleted, *block, block->requested_bytes);
  count_freed(*block);
  block->requested_bytes = 0;
  block->stack = {};
  block->state = BlockState::kFree;
  addresses_.remove(block);

  int64_t split_count = 0;
  int64_t split_bytes = 0;
  for (ClassicBlock* neighbour : {block->previous, block->next}) {
    const size_t merged = merge(block, neighbour);
    if (merged == 0) continue;
    --split_count;
    split_bytes -= static_cast<int64_t>(merged);
  }
  block->pool->insert(block);
  if (block->is_uncached) {
    release_segment(block);
    return;
  }
  if (block->expandable != nullptr) return;
  if (block->is_split()) {
    ++split_count;
    split_bytes += static_cast<int64_t>(block->bytes);
  }
  count_inactive_split(block->pool->is_small(), split_count, split_bytes);
}

// How many bytes the neighbour brought; 0 if it could not be merged. REQUIRES: `into` is free or
// unmapped, and in no pool.
size_t ClassicEngine::merge(ClassicBlock* into, ClassicBlock* neighbour) {
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
  waiting_.record_use(block, use);
  return {};
}

void ClassicEngine::defer_error(const Status& failure) {
  if (deferred_error_.ok()) deferred_error_ = failure;
}

Status ClassicEngine::collect_waiting(StreamId stream) {
  std::vector<Block*> finished;
  Status collected = waiting_.collect_for_stream(stream, finished);
  make_all_free(finished);
  return collected;
}

Status ClassicEngine::collect_deferred() {
  std::vector<Block*> finished;
  Status collected = waiting_.collect_deferred(finished);
  make_all_free(finished);
  return collected;
}

}  // namespace ashlar::classic
