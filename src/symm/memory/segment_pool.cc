// SPDX-License-Identifier: Apache-2.0
//
// Carving, growing, giving back.
#include "symm/memory/segment_pool.h"

#include <algorithm>

#include "base/align.h"
#include "base/text.h"

namespace ashlar::symm {
namespace {

// So that every buffer is aligned as a block's is.
size_t carved_bytes(size_t bytes) { return align_up(std::max<size_t>(bytes, 1), kFrontAlignment); }

}  // namespace

SegmentPool::SegmentPool(Arena& arena, Options options)
    : arena_(arena), options_(std::move(options)) {}

SegmentPool::~SegmentPool() {
  if (!turn_.take(Deadline::never())) return;
  const TurnTaken taken(turn_);
  while (!segments_.empty()) free_segment(segments_.begin()->first);
}

Result<std::byte*> SegmentPool::allocate(size_t bytes) {
  if (bytes > kMostBlockBytes) {
    return Status::out_of_memory(text("a buffer of ", bytes, " bytes from pool ", options_.name,
                                      ": more than there can be"));
  }
  if (!turn_.take(Deadline::never())) return Turn::not_taken("an allocation");
  const TurnTaken taken(turn_);
  std::optional<Holes::Place> place = holes_.take(carved_bytes(bytes));
  if (!place) {
    if (Status grown = grow(carved_bytes(bytes)); !grown.ok()) {
      // Ranks that had memory went on differently: the next rendezvous says who had none.
      log_->note({Act::Kind::kRefuse, bytes});
      return grown;
    }
    place = holes_.take(carved_bytes(bytes));
  }
  const ActLog::Noted noted = log_->note({Act::Kind::kAllocate, bytes});
  Carving carving;
  carving.ordinal = next_ordinal_++;
  carving.act = noted.number;
  carving.sequence_hash = noted.hash;
  carving.segment = place->segment;
  carving.offset = place->offset;
  carving.bytes = bytes;
  const Segment& segment = segments_.at(place->segment);
  segment.carvings->add(carving);
  ++buffer_count_;
  return segment.buffer + place->offset;
}

// Segments of a pool are counted apart from other blocks, and from those of other pools.
Status SegmentPool::grow(size_t bytes) {
  Segment segment;
  segment.bytes = std::max(bytes, carved_bytes(options_.segment_bytes));
  segment.carvings = std::make_shared<Carvings>(log_);
  AllocationOptions options;
  options.group = "pool " + options_.name;
  options.carvings = segment.carvings;
  const Result<std::byte*> buffer = arena_.allocate(segment.bytes, options);
  if (!buffer.ok()) return buffer.status();
  segment.buffer = *buffer;
  holes_.add_segment(next_segment_, segment.bytes);
  segments_.emplace(next_segment_++, std::move(segment));
  return {};
}

Status SegmentPool::free(const void* pointer) {
  if (!turn_.take(Deadline::never())) return Turn::not_taken("an allocation");
  const TurnTaken taken(turn_);
  const auto* at = static_cast<const std::byte*>(pointer);
  const std::optional<Arena::Found> found = arena_.find(pointer);
  const Carving* carving = found ? found->carving.get() : nullptr;
  const auto segment = carving == nullptr ? segments_.end() : segments_.find(carving->segment);
  const bool is_ours = segment != segments_.end() &&
                       segment->second.carvings == found->block->carvings &&
                       segment->second.buffer + carving->offset == at;
  if (!is_ours) {
    return Status::invalid_argument(
        text(pointer, " is not the beginning of a buffer of pool ", options_.name));
  }
  log_->note({Act::Kind::kFree, carving->ordinal});
  segment->second.carvings->remove(carving->offset);
  holes_.give_back({carving->segment, carving->offset}, carved_bytes(carving->bytes));
  --buffer_count_;
  return {};
}

void SegmentPool::trim() {
  if (!turn_.take(Deadline::never())) return;
  const TurnTaken taken(turn_);
  log_->note({Act::Kind::kTrim, 0});
  for (const uint64_t number : holes_.remove_empty_segments()) free_segment(number);
}

void SegmentPool::free_segment(uint64_t number) {
  const auto segment = segments_.find(number);
  // It is the beginning of a live block, which is all that free asks for.
  (void)arena_.free(segment->second.buffer).ok();
  segments_.erase(segment);
}

SegmentPool::Stats SegmentPool::stats() {
  Stats stats;
  stats.acts = log_->state();
  if (!turn_.take(Deadline::never())) return stats;
  const TurnTaken taken(turn_);
  stats.segment_count = segments_.size();
  for (const auto& [number, segment] : segments_) stats.segment_bytes += segment.bytes;
  stats.used_bytes = stats.segment_bytes - holes_.free_bytes();
  stats.buffer_count = buffer_count_;
  return stats;
}

}  // namespace ashlar::symm
