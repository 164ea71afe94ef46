// SPDX-License-Identifier: Apache-2.0
//
// Allocation and freeing. Start reading at `allocate_locked`.
#include "engine/classic/classic_engine.h"

#include "base/check.h"
#include "base/host_memory.h"
#include "base/text.h"
#include "device/relaxed_capture.h"
#include "engine/classic/engine_lock.h"
#include "engine/classic/heap_inspection.h"

namespace ashlar::classic {
namespace {

// As in PyTorch, a device without virtual memory silently uses plain segments.
AllocatorOptions supported_options(AllocatorOptions options, const DeviceProperties& properties) {
  options.expandable_segments = options.expandable_segments && properties.has_virtual_memory;
  return options;
}

}  // namespace

ClassicEngine::ClassicEngine(Device& device, const AllocatorOptions& options, SourceConfig source)
    : device_(device),
      options_(supported_options(options, device.properties())),
      sizes_(options),
      hooks_(history_, device.properties().index),
      stats_(sizes_, options),
      tracer_(hooks_),
      limit_(stats_, device.properties().capacity_bytes, options.memory_fraction),
      pools_(stats_, returns_, std::move(source)),
      heap_({sizes_, stats_, tracer_, addresses_}),
      expandables_({device, options_, sizes_, limit_, heap_, stats_, tracer_}),
      pending_(device, options.capture_stream_reuse),
      reclaimer_({device, options_, sizes_, limit_, pools_, heap_, expandables_, pending_, returns_,
                  stats_, tracer_}),
      caching_(options.caching) {}

// Frees only plain segments: the destructor of an expandable segment releases the segment's memory.
ClassicEngine::~ClassicEngine() {
  (void)device_.synchronize_device().ok();
  {
    MutexLock lock(mutex_);
    const PoolTable* pools = &pools_;
    heap_.for_each([&](const ClassicBlock* block) {
      if (block->previous != nullptr || block->expandable != nullptr) return;
      if (const std::shared_ptr<SegmentSource>& source = pools->source_of(*block->pool)) {
        returns_.add(source, segment_range(*block));
      } else {
        // Retries once, because no later call can.
        if (!device_.free(block->address).ok()) (void)device_.free(block->address).ok();
      }
    });
  }
  returns_.flush(device_);
}

Result<Block*> ClassicEngine::allocate(const AllocationRequest& request) {
  if (request.bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
  if (request.bytes >= kRequestLimitBytes) {
    return Status::out_of_memory(
        text("tried to allocate ", request.bytes, " B: no device has an exabyte"));
  }
  OperationLock lock(*this, request.stack);
  AllocParams params;
  params.request = request;
  return allocate_locked(params);
}

Result<ClassicBlock*> ClassicEngine::allocate_locked(AllocParams& params) {
  if (Status deferred = reclaimer_.take_deferred_error(); !deferred.ok()) return deferred;
  const StreamId stream = params.request.stream;
  if (Status collected = collect_pending(stream); !collected.ok()) return collected;
  params.block_bytes = sizes_.block_bytes(params.request.bytes);
  params.segment_bytes = sizes_.segment_bytes(params.block_bytes);
  params.pool = &pools_.pool_for(params.block_bytes, stream);
  params.expandable = options_.expandable_segments && pools_.source_of(*params.pool) == nullptr;

  // During a capture, uses cached memory even if caching is off: a graph needs its memory at every
  // launch, so a free must not return it to the device.
  const bool may_cache = caching_ || pending_.is_capturing({&device_, stream});

  const InFlightAllocation in_flight(params.pool->owner());
  const BlockStore::Reservation for_split = heap_.reserve(1);
  const bool is_cached = may_cache && !pools_.is_pass_through(*params.pool);
  return is_cached ? find_or_grow(params) : allocate_uncached(params);
}

Result<ClassicBlock*> ClassicEngine::find_or_grow(AllocParams& params) {
  ClassicBlock* block = take_cached(params);
  if (block == nullptr && run_free_memory_callbacks()) block = take_cached(params);
  if (block != nullptr) return heap_.allocate(block, params);

  reclaimer_.release_by_age();
  Result<ClassicBlock*> grown = grow(params);
  if (!grown.ok() && grown.status().is_out_of_memory()) {
    grown = reclaim_and_retry(params, grown.status());
  }
  if (!grown.ok()) {
    const Status& why = grown.status();
    return why.is_out_of_memory() ? report_oom(params, why) : why;
  }
  return heap_.allocate(*grown, params);
}

// Allocates a segment that contains only this block and is released when the block is freed. If a
// pass-through source has no memory left, may take a cached block from a pool with use_on_oom
// instead.
Result<ClassicBlock*> ClassicEngine::allocate_uncached(AllocParams& params) {
  const bool is_pass_through = pools_.is_pass_through(*params.pool);
  params.expandable = false;
  if (is_pass_through) {
    params.block_bytes = params.request.bytes;
    release_leftovers();
  }
  params.segment_bytes = params.block_bytes;
  Result<ClassicBlock*> grown = grow(params);
  const auto is_oom = [&] { return !grown.ok() && grown.status().is_out_of_memory(); };
  const bool may_retry = is_pass_through || !params.rejected;
  if (is_oom() && may_retry && run_free_memory_callbacks()) grown = grow(params);
  if (is_oom() && is_pass_through) {
    AllocParams rounded = params;
    rounded.block_bytes = sizes_.block_bytes(params.request.bytes);
    ClassicBlock* borrowed = borrow_from_overflow_pools(rounded);
    if (borrowed != nullptr) return heap_.allocate(borrowed, rounded);
  }
  if (is_oom() && !params.rejected) grown = release_all_and_retry(params);
  if (!grown.ok()) {
    const Status& why = grown.status();
    return why.is_out_of_memory() ? report_oom(params, why) : why;
  }
  (*grown)->is_uncached = true;
  return heap_.allocate(*grown, params);
}

ClassicBlock* ClassicEngine::take_cached(const AllocParams& params) {
  const bool counts_ages = limit_.is_set() && options_.garbage_collection_threshold > 0;
  if (counts_ages) ++params.pool->search_count;
  return params.pool->take_best_fit({params.request.stream, params.block_bytes, params.expandable},
                                    sizes_);
}

Result<ClassicBlock*> ClassicEngine::grow(AllocParams& params) {
  // Memory that the source caches cannot serve a private pool that takes its memory from the
  // device, but counts towards the limit.
  const bool counts_source_cache =
      pools_.source_caches() && limit_.is_set() && !pools_.is_pass_through(*params.pool);
  const size_t cached_bytes =
      counts_source_cache ? source_cached_bytes(stats_.default_pool_bytes()) : 0;
  const bool is_above_limit = limit_.is_exceeded_by(params.segment_bytes + cached_bytes);
  if (is_above_limit && options_.reject_before_device_oom) {
    params.rejected = true;
    ++stats_.stats().oom_rejections;
  }
  if (is_above_limit) return limit_exceeded_error();
  return params.expandable ? expandables_.grow(params) : grow_plain(params);
}

// Allocates host memory for the segment first, because the device allocation could not be undone
// reliably.
Result<ClassicBlock*> ClassicEngine::grow_plain(const AllocParams& params) {
  const BlockStore::Reservation for_segment = heap_.reserve_segment(params.request.stream);
  const std::shared_ptr<SegmentSource> source = pools_.source_of(*params.pool);
  if (source != nullptr) returns_.reserve();
  ScopeGuard cancel_return([&] {
    if (source != nullptr) returns_.cancel_reservation();
  });
  Result<DeviceAddress> address = allocate_segment(params, source.get());
  if (!address.ok()) return address.status();
  cancel_return.dismiss();
  ClassicBlock* block = heap_.create(params, {*address, params.segment_bytes});
  block->segment_stack = params.request.stack;
  stats_.record_reserved(*block, block->bytes);
  tracer_.record(TraceAction::kSegmentAlloc, *block, block->bytes);
  return block;
}

// Releases the lock to call a source, which is user code, or the device, which may be slow. With
// pytorch_compatible, keeps the lock during device calls, as PyTorch does, unless
// unlock_during_device_allocate is set. During a capture, relaxed capture mode permits the call;
// private pools keep the addresses in a graph valid.
Result<DeviceAddress> ClassicEngine::allocate_segment(const AllocParams& params,
                                                      SegmentSource* source) {
  const auto allocate = [&]() -> Result<DeviceAddress> {
    const RelaxedCapture relaxed(device_);
    if (!relaxed.status().ok()) return relaxed.status();
    return source != nullptr ? source->allocate(params.segment_bytes, params.request.stream)
                             : device_.allocate(params.segment_bytes);
  };
  const bool keeps_lock =
      source == nullptr && !options_.unlock_during_device_allocate && options_.pytorch_compatible;
  if (keeps_lock) return allocate();
  const MemoryLimit::Request request(limit_, params.segment_bytes);
  Unlock unlocked(*this);
  return allocate();
}

bool ClassicEngine::run_free_memory_callbacks() {
  if (!hooks_.has_free_memory_callbacks()) return false;
  Unlock unlocked(*this);
  return hooks_.run_free_memory_callbacks();
}

Status ClassicEngine::free(Block* block, StackId stack) {
  OperationLock lock(*this, stack);
  return free_locked(as_classic(block));
}

Status ClassicEngine::free_if_owned(Block* block, StackId stack) {
  OperationLock lock(*this, stack);
  return owns_locked(*block) ? free_locked(as_classic(block)) : foreign_block_error(*block);
}

bool ClassicEngine::owns(const Block* block) const {
  MutexLock lock(mutex_);
  return owns_locked(*block);
}

bool ClassicEngine::owns_locked(const Block& block) const {
  return block.type == BlockType::kClassic && pools_.contains(*as_classic(&block)->pool);
}

void ClassicEngine::free_quietly(Block* block, StackId stack) {
  const Status freed = without_bad_alloc([&] { return free(block, stack); });
  if (freed.ok()) return;
  MutexLock lock(mutex_);
  reclaimer_.defer_error(freed);
}

Status ClassicEngine::free_locked(ClassicBlock* block) {
  if (!block->is_allocated()) return double_free_error(*block);
  heap_.request_free(block);
  return block->pin_count > 0 ? Status() : free_unpinned(block);
}

Status ClassicEngine::free_unpinned(ClassicBlock* block) {
  if (!block->uses.empty()) return pending_.add(block);
  complete_free(block);
  return {};
}

void ClassicEngine::complete_free(ClassicBlock* block) {
  heap_.complete_free(block);
  if (block->is_uncached) reclaimer_.release_segment(block);
}

Status ClassicEngine::complete_frees(Status collected, const std::vector<Block*>& finished) {
  for (Block* block : finished) complete_free(as_classic(block));
  return collected;
}

Status ClassicEngine::collect_pending(StreamId stream) {
  std::vector<Block*> finished;
  Status collected = pending_.collect_for_stream(stream, finished);
  return complete_frees(std::move(collected), finished);
}

Status ClassicEngine::collect_deferred() {
  std::vector<Block*> finished;
  Status collected = pending_.collect_deferred(finished);
  return complete_frees(std::move(collected), finished);
}

Status ClassicEngine::record_stream(Block* block, const DeviceStream& use) {
  MutexLock lock(mutex_);
  pending_.record_use(block, use);
  return {};
}

void ClassicEngine::pin(Block* block) {
  MutexLock lock(mutex_);
  ASHLAR_CHECK(block->is_allocated() || block->pin_count > 0);
  ++block->pin_count;
}

// Events for a freed block are recorded only now, so that they cover work queued since the free.
void ClassicEngine::unpin(Block* block) {
  OperationLock lock(*this, {});
  ASHLAR_CHECK(block->pin_count > 0);
  --block->pin_count;
  if (block->pin_count > 0 || block->is_allocated()) return;
  if (Status freed = free_unpinned(as_classic(block)); !freed.ok()) reclaimer_.defer_error(freed);
}

namespace {

Status cannot_adopt_error(const SnapshotSegment& segment, std::string_view why) {
  return Status::invalid_argument(text("cannot adopt the segment at ", segment.address, ": ", why));
}

Status check_tiling(const SnapshotSegment& segment) {
  size_t tiled_bytes = 0;
  for (const SnapshotBlock& block : segment.blocks) {
    const bool follows = block.address == segment.address + tiled_bytes && block.bytes > 0;
    if (!follows) return cannot_adopt_error(segment, "its blocks do not tile it");
    tiled_bytes += block.bytes;
  }
  if (tiled_bytes == segment.total_bytes) return {};
  return cannot_adopt_error(segment, "its blocks do not add up to its size");
}

}  // namespace

// The host memory that dividing segments into `block_count` blocks needs. Allocated before the
// first segment is obtained, because a segment that is not divided would be lost.
struct ClassicEngine::Division {
  Division(BlockHeap& heap, size_t block_count) : for_splits(heap.reserve(block_count)) {
    active.reserve(block_count);
    inactive.reserve(block_count);
  }

  BlockStore::Reservation for_splits;
  std::vector<ClassicBlock*> active;
  std::vector<ClassicBlock*> inactive;  // of the segment that is being divided
};

Result<std::vector<ClassicBlock*>> ClassicEngine::adopt(const SnapshotSegment& segment) {
  if (Status tiled = check_tiling(segment); !tiled.ok()) return tiled;
  if (segment.is_expandable) return cannot_adopt_error(segment, "it is expandable");
  MutexLock lock(mutex_);
  Result<AllocParams> params = adoption_params(segment);
  if (!params.ok()) return params.status();
  params->segment_bytes = segment.total_bytes;
  Division division(heap_, segment.blocks.size());
  Result<ClassicBlock*> grown = grow_plain(*params);
  if (!grown.ok()) return grown.status();
  divide(*grown, segment, *params, division);
  hooks_.discard_queued();  // these operations are not part of the replay
  return std::move(division.active);
}

Result<std::vector<ClassicBlock*>> ClassicEngine::adopt_expandable(
    std::span<const SnapshotSegment> parts, DeviceAddress begin) {
  MutexLock lock(mutex_);
  Result<AllocParams> params = adoption_params(parts.front());
  if (!params.ok()) return params.status();
  const size_t granule = expandables_.granule_bytes(params->pool->is_small());
  const size_t reserve =
      expandables_.reserve_policy().reserve_bytes(params->request.stream, granule);
  std::vector<ExpandableSegments::MappedPart> wanted;
  size_t block_count = 0;
  for (const SnapshotSegment& part : parts) {
    if (Status tiled = check_tiling(part); !tiled.ok()) return tiled;
    const size_t offset = part.address - begin;
    const bool fits = part.address >= begin && offset < reserve &&
                      part.total_bytes <= reserve - offset && offset % granule == 0 &&
                      part.total_bytes % granule == 0;
    if (!fits) return cannot_adopt_error(part, "it does not fit an expandable segment");
    wanted.push_back({offset, part.total_bytes});
    block_count += part.blocks.size();
  }
  Division division(heap_, block_count);
  const Result<std::vector<ClassicBlock*>> mapped = expandables_.create_mapped(*params, wanted);
  if (!mapped.ok()) return mapped.status();
  for (size_t i = 0; i < parts.size(); ++i) divide((*mapped)[i], parts[i], *params, division);
  hooks_.discard_queued();  // these operations are not part of the replay
  return std::move(division.active);
}

Result<AllocParams> ClassicEngine::adoption_params(const SnapshotSegment& segment) {
  AllocParams params;
  params.request.stream = segment.stream;
  PrivatePool* const owner = pools_.find(segment.pool);
  if (owner != nullptr) {
    params.pool = segment.is_large ? &owner->large : &owner->small;
  } else if (segment.pool.is_default()) {
    params.pool = segment.is_large ? &pools_.large() : &pools_.small();
  } else {
    return cannot_adopt_error(segment, "its pool does not exist");
  }
  return params;
}

// Divides a free block that is in no index into blocks of the sizes in `like`, and adds those that
// are active in `like` to `division.active`. Allocates all blocks from front to back and then frees
// the inactive ones, so that adjacent ones merge.
void ClassicEngine::divide(ClassicBlock* whole, const SnapshotSegment& like, AllocParams& params,
                           Division& division) {
  ClassicBlock* rest = whole;
  for (const SnapshotBlock& wanted : like.blocks) {
    const bool is_active = wanted.state != SnapshotBlockState::kInactive;
    params.block_bytes = wanted.bytes;
    params.request.bytes = is_active ? wanted.requested_bytes : wanted.bytes;
    const bool is_last = rest->bytes == wanted.bytes;
    ClassicBlock* block = heap_.allocate(rest, params, BlockHeap::SplitRule::kExact);
    if (!is_last) params.pool->erase(rest);
    (is_active ? division.active : division.inactive).push_back(block);
  }
  for (ClassicBlock* block : division.inactive) heap_.free(block);
  division.inactive.clear();
}

}  // namespace ashlar::classic
