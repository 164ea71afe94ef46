// SPDX-License-Identifier: Apache-2.0
//
// Memory back to the device as far as asked for: whole segments, and whole granules of expandable
// ones.
#include <algorithm>
#include <map>

#include "device/relaxed_capture.h"
#include "engine/classic/act.h"

namespace ashlar::classic {

Result<size_t> ClassicEngine::trim_to(const TrimTarget& target) {
  Act act(*this, target.stack);
  const RelaxedCapture relaxed(device_, waiting_.capture_count());
  if (!relaxed.status().ok()) return relaxed.status();
  const bool may_wait = target.wait == TrimWait::kForWork;
  Status collected = may_wait ? wait_for_waiting({}) : collect_finished();
  if (!collected.ok()) return collected;

  const std::vector<Piece> pieces = givable_pieces(target.wait);
  std::vector<size_t> sizes;
  for (const Piece& piece : pieces) sizes.push_back(piece.bytes);
  const size_t wanted_bytes = held_bytes_ - std::min(held_bytes_, target.reserved_bytes);
  std::map<ClassicBlock*, size_t> chosen;
  std::vector<ClassicBlock*> in_order;
  for (const size_t i : select_for_trim(sizes, wanted_bytes)) {
    size_t& bytes = chosen[pieces[i].block];
    if (bytes == 0) in_order.push_back(pieces[i].block);
    bytes += pieces[i].bytes;
  }
  size_t given_bytes = 0;
  for (ClassicBlock* block : in_order)
    given_bytes += give_back({block, chosen[block]}, target.wait);
  erase_empty_pools({});
  if (!deferred_error_.ok()) return std::exchange(deferred_error_, {});
  return given_bytes;
}

Status ClassicEngine::collect_finished() {
  std::vector<Block*> finished;
  Status collected = waiting_.collect(finished);
  make_all_free(finished);
  return collected;
}

// Nobody will ask again for memory of a pool that was let go: it goes first. Then what was not used
// for long, where ages are counted at all (collection by age). Among equals the largest: a call of
// the device costs about the same for any size, so that these are the cheapest to have again.
std::vector<ClassicEngine::Piece> ClassicEngine::givable_pieces(TrimWait wait) {
  std::vector<FreePool*> from;
  for (const auto& [id, pool] : pools_) {
    if (!routes_.is_freeable(id)) continue;
    from.push_back(&pool->small);
    from.push_back(&pool->large);
  }
  if (waiting_.capture_count() == 0) from.insert(from.end(), {&small_, &large_});
  std::vector<ClassicBlock*> blocks;
  for (const FreePool* pool : from) {
    for (ClassicBlock* block = pool->blocks().first(); block != nullptr;
         block = FreePool::Blocks::next(block)) {
      if (block->expandable != nullptr || !block->is_split()) blocks.push_back(block);
    }
  }
  if (wait == TrimWait::kNever) drop_busy(blocks);
  const auto age = [](const ClassicBlock* block) {
    return block->pool->search_count - block->free_since;
  };
  std::stable_sort(blocks.begin(), blocks.end(), [&](const ClassicBlock* a, const ClassicBlock* b) {
    const bool is_needed_a = a->pool->owner() == nullptr;
    const bool is_needed_b = b->pool->owner() == nullptr;
    if (is_needed_a != is_needed_b) return is_needed_b;
    return age(a) != age(b) ? age(a) > age(b) : a->bytes > b->bytes;
  });
  std::vector<Piece> pieces;
  for (ClassicBlock* block : blocks) {
    const ExpandableSegment* segment = block->expandable;
    if (segment == nullptr) {
      pieces.push_back({block, block->bytes});
      continue;
    }
    const size_t granule_bytes = segment->granule_bytes();
    const size_t bytes = segment->granules_inside({block->address, block->bytes}).bytes;
    pieces.insert(pieces.end(), bytes / granule_bytes, {block, granule_bytes});
  }
  return pieces;
}

// Work that used a free block was queued in its stream. Taking a plain segment back, a driver may
// wait for all of the device, so that these go only while every stream we know of is idle.
void ClassicEngine::drop_busy(std::vector<ClassicBlock*>& blocks) const {
  std::map<StreamId, bool> is_idle;
  bool are_all_idle = true;
  for (const auto& [stream, usage] : stats_.streams) {
    const Result<bool> idle = device_.is_idle(stream);
    is_idle[stream] = idle.ok() && *idle;  // one that is gone says nothing about its work
    are_all_idle = are_all_idle && is_idle[stream];
  }
  std::erase_if(blocks, [&](const ClassicBlock* block) {
    return !(block->expandable != nullptr ? is_idle[block->stream] : are_all_idle);
  });
}

// Of an expandable block its last granules: what is free is handed out from its beginning.
size_t ClassicEngine::give_back(const Piece& piece, TrimWait wait) {
  ClassicBlock* block = piece.block;
  if (block->expandable == nullptr) return release_segment(block, wait) ? piece.bytes : 0;
  const AddressRange whole = block->expandable->granules_inside({block->address, block->bytes});
  const AddressRange last{whole.begin + (whole.bytes - piece.bytes), piece.bytes};
  FreePool& pool = *block->pool;
  const size_t given_bytes = unmap_part(block, last, wait);
  destroy_empty_expandables(pool);
  return given_bytes;
}

}  // namespace ashlar::classic
