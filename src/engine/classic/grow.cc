// SPDX-License-Identifier: Apache-2.0
//
// Memory from the device: a plain segment for the request, or more of an expandable one.
#include <algorithm>

#include "base/align.h"
#include "base/text.h"
#include "device/relaxed_capture.h"
#include "engine/classic/act.h"

namespace ashlar::classic {
namespace {

Status above_limit() { return Status::out_of_memory("above the limit of this process"); }

}  // namespace

Result<ClassicBlock*> ClassicEngine::grow(Search& search, bool is_retry) {
  if (is_retry) ++stats_.alloc_retries;
  // What the source keeps may serve its own allocations, and nobody else's.
  const bool counts_kept = source_.keeps && memory_fraction_ < 1 && !passes_each(*search.pool);
  const size_t kept = counts_kept ? kept_bytes(given_bytes()) : 0;
  const bool above = is_above_limit(search.segment_bytes + kept);
  if (above && options_.reject_before_device_oom) {
    search.rejected = true;
    ++stats_.oom_rejections;
  }
  if (above) return above_limit();
  return search.expandable ? grow_expandable(search) : grow_plain(search);
}

size_t ClassicEngine::limit_bytes() const {
  if (memory_fraction_ >= 1) return capacity_bytes_;
  return static_cast<size_t>(memory_fraction_ * static_cast<double>(capacity_bytes_));
}

bool ClassicEngine::is_above_limit(size_t more_bytes) const {
  return memory_fraction_ < 1 && held_bytes_ + growing_bytes_ + more_bytes > limit_bytes();
}

size_t ClassicEngine::given_bytes() const {
  return static_cast<size_t>(stats_.pools.at(PoolId{}).reserved_bytes.all.current);
}

ClassicEngine::Held ClassicEngine::held() const {
  MutexLock lock(mutex_);
  return {held_bytes_, given_bytes()};
}

// --- plain segments -----------------------------------------------------------------------------

Result<ClassicBlock*> ClassicEngine::grow_plain(const Search& search) {
  Result<DeviceAddress> at = device_allocate(search);
  if (!at.ok()) return at.status();
  ClassicBlock* block = blocks_.take();
  block->address = *at;
  block->bytes = search.segment_bytes;
  block->stream = search.request.stream;
  block->pool = search.pool;
  block->stream_usage = &stats_.streams[search.request.stream];
  block->segment_stack = search.request.stack;
  if (PrivatePool* owner = search.pool->owner()) ++owner->segment_count;
  count_reserved(*block, block->bytes);
  note(TraceAction::kSegmentAlloc, *block, block->bytes);
  return block;
}

// A device's own allocation may take long, and a user's source may call us: neither should find us
// locked. PyTorch keeps the lock unless asked. A capture does not forbid it: a graph that bakes the
// address in is what private pools are for.
Result<DeviceAddress> ClassicEngine::device_allocate(const Search& search) {
  const std::shared_ptr<SegmentSource> source = source_of(*search.pool);
  const auto ask = [&]() -> Result<DeviceAddress> {
    const RelaxedCapture relaxed(device_);
    if (!relaxed.status().ok()) return relaxed.status();
    return source ? source->allocate(search.segment_bytes, search.request.stream)
                  : device_.allocate(search.segment_bytes);
  };
  const bool unlock =
      source != nullptr || options_.unlock_during_device_allocate || !options_.pytorch_compatible;
  if (!unlock) return ask();
  growing_bytes_ += search.segment_bytes;
  Result<DeviceAddress> at = Status::out_of_memory("not asked yet");
  {
    Pause pause(*this);
    at = ask();
  }
  growing_bytes_ -= search.segment_bytes;
  return at;
}

// --- expandable segments ------------------------------------------------------------------------

Result<ClassicBlock*> ClassicEngine::grow_expandable(const Search& search) {
  Result<ClassicBlock*> found = find_expandable(search);
  if (!found.ok()) return found;
  ClassicBlock* block = *found;
  if (!block->is_mapped()) {
    Status mapped = map_block(block, std::min(block->bytes, search.block_bytes));
    if (!mapped.ok()) return mapped;
  }
  // Free, then unmapped, then whatever: mapping more of the next one merges it backwards.
  while (block->bytes < search.block_bytes) {
    ClassicBlock* next = block->next;
    Status mapped = map_block(next, std::min(next->bytes, search.block_bytes - block->bytes));
    if (!mapped.ok()) return mapped;
    block = next;
  }
  search.pool->erase(block);
  return block;
}

// The lowest place where enough free and unmapped blocks follow each other, so that holes are
// refilled first; or a new segment.
Result<ClassicBlock*> ClassicEngine::find_expandable(const Search& search) {
  const auto usable = [](const ClassicBlock* block) {
    return block != nullptr && !block->is_active();
  };
  const auto has_room = [&](const ClassicBlock* block) {
    size_t bytes = 0;
    for (; bytes < search.block_bytes && usable(block); block = block->next) bytes += block->bytes;
    return bytes >= search.block_bytes;
  };
  const StreamId stream = search.request.stream;
  const FreePool& pool = *search.pool;
  for (ClassicBlock* unmapped = pool.first_unmapped(stream); unmapped != nullptr;
       unmapped = FreePool::next_unmapped(unmapped)) {
    ClassicBlock* candidate = usable(unmapped->previous) ? unmapped->previous : unmapped;
    if (has_room(candidate)) return candidate;
  }
  const size_t granule = granule_bytes(pool.is_small());
  const size_t reserve = reserve_bytes(stream, granule);
  if (reserve < search.block_bytes) {
    return Status::out_of_memory(text("larger than an expandable segment, ", reserve, " B"));
  }
  const bool can_export =
      options_.shareable_expandable_segments && device_.properties().can_export_fd;
  Result<std::unique_ptr<ExpandableSegment>> segment = ExpandableSegment::create(
      device_, {stream, pool.is_small(), granule, reserve, can_export}, accessors_);
  if (!segment.ok()) return segment.status();
  ClassicBlock* block = blocks_.take();
  block->address = (*segment)->range().begin;
  block->bytes = (*segment)->range().bytes;
  block->stream = stream;
  block->pool = search.pool;
  block->stream_usage = &stats_.streams[stream];
  block->expandable = segment->get();
  block->state = BlockState::kUnmapped;
  search.pool->insert_unmapped(block);
  expandable_.push_back(*std::move(segment));
  if (PrivatePool* owner = search.pool->owner()) ++owner->segment_count;
  return block;
}

// Puts memory behind the front of an unmapped block, which then is free and merged.
Status ClassicEngine::map_block(ClassicBlock* block, size_t bytes) {
  const DeviceAddress mapped_from = block->address;
  const size_t mapped_bytes = align_up_to(bytes, block->expandable->granule_bytes());
  // PyTorch holds against its limit what a plain segment would have taken.
  if (!options_.pytorch_compatible && is_above_limit(mapped_bytes)) return above_limit();
  Result<size_t> mapped = block->expandable->map(mapped_from, bytes);
  if (!mapped.ok()) return mapped.status();
  FreePool& pool = *block->pool;
  pool.erase_unmapped(block);
  block->state = BlockState::kFree;
  block->segment_stack = caller_stack_;
  if (*mapped < block->bytes) {
    ClassicBlock* rest =
        new_part(*block, {block->address + *mapped, block->bytes - *mapped}, block, block->next);
    rest->state = BlockState::kUnmapped;
    block->bytes = *mapped;
    pool.insert_unmapped(rest);
  }
  merge(block, block->previous);
  merge(block, block->next);
  pool.insert(block);
  count_reserved(*block, *mapped);
  ClassicBlock part = *block;
  part.address = mapped_from;
  note(TraceAction::kSegmentMap, part, *mapped);
  return {};
}

// --- how many addresses to reserve
// ------------------------------------------------------------------

size_t ClassicEngine::granule_bytes(bool is_small) const {
  return align_up_to(sizes_.expandable_granule_bytes(is_small),
                     device_.properties().granularity_bytes);
}

// 9/8 of the capacity leaves room to move holes to the end; more is never reserved.
size_t ClassicEngine::reserve_bytes(StreamId stream, size_t granule_bytes) const {
  const size_t most = capacity_bytes_ + capacity_bytes_ / 8;
  size_t wanted = most;
  if (const std::optional<ReserveSize> setting = reserve_setting(stream)) {
    const double share = setting->capacity_fraction * static_cast<double>(capacity_bytes_);
    const bool is_all = share >= static_cast<double>(most);
    wanted = setting->bytes != 0 ? setting->bytes : is_all ? most : static_cast<size_t>(share);
  }
  return align_up_to(std::clamp<size_t>(wanted, 1, most), granule_bytes);
}

// The class's own setting, or the one for all, or the class's default, or nothing.
std::optional<ReserveSize> ClassicEngine::reserve_setting(StreamId stream) const {
  const auto tagged = stream_classes_.find(stream);
  if (tagged != stream_classes_.end()) {
    const auto by_class = options_.expandable_reserve_by_class.find(tagged->second);
    if (by_class != options_.expandable_reserve_by_class.end()) return by_class->second;
  }
  if (options_.expandable_reserve || tagged == stream_classes_.end()) {
    return options_.expandable_reserve;
  }
  const auto fraction = default_class_fractions_.find(tagged->second);
  if (fraction == default_class_fractions_.end()) return std::nullopt;
  return ReserveSize{fraction->second, 0};
}

// What to say when a request is larger than what its stream reserves, but not than the device.
std::string ClassicEngine::reserve_hint(const Search& search) const {
  if (!search.expandable || search.block_bytes > capacity_bytes_) return {};
  const size_t granule = granule_bytes(search.pool->is_small());
  const size_t reserve = reserve_bytes(search.request.stream, granule);
  if (search.block_bytes <= reserve) return {};
  const auto tagged = stream_classes_.find(search.request.stream);
  const std::string name = tagged == stream_classes_.end() ? "" : " of class " + tagged->second;
  return text(" An expandable segment of this stream", name, " reserves no more than ", reserve,
              " B of addresses: see expandable_segments_reserve and "
              "expandable_segments_reserve_by_class.");
}

void ClassicEngine::set_stream_class(StreamId stream, std::string name) {
  MutexLock lock(mutex_);
  if (name.empty()) {
    stream_classes_.erase(stream);
  } else {
    stream_classes_[stream] = std::move(name);
  }
}

std::string ClassicEngine::stream_class(StreamId stream) const {
  MutexLock lock(mutex_);
  const auto found = stream_classes_.find(stream);
  return found == stream_classes_.end() ? std::string() : found->second;
}

void ClassicEngine::set_default_class_fraction(const std::string& name, double capacity_fraction) {
  MutexLock lock(mutex_);
  default_class_fractions_[name] = capacity_fraction;
}

}  // namespace ashlar::classic
