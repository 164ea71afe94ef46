// SPDX-License-Identifier: Apache-2.0
//
// Implements trim, garbage collection, and the steps that reclaim memory when the device is full.
#include <algorithm>

#include "classic_model.h"

namespace ashlar::model {

std::optional<ClassicModel::BlockRef> ClassicModel::reclaim_and_retry(FitRequest& wanted) {
  if (wanted.list.pool.is_default()) {
    for (const auto& [id, pool] : pools_) {
      if (!pool.use_on_oom || pool.freeable) continue;
      const FreeListKey lender{id, wanted.list.is_small};
      if (std::optional<BlockRef> lent = best_fit(wanted, lender, false)) {
        wanted.expandable = false;
        return lent;
      }
    }
  }
  if (release_oversize(wanted)) {
    if (std::optional<BlockRef> grown = grow(wanted)) return grown;
  }
  if (is_capturing(wanted.stream)) return std::nullopt;
  if (!options_.pytorch_compatible) {
    if (std::optional<BlockRef> found = search(wanted)) return found;
  }
  release_all();
  ++retries_;
  return grow(wanted);
}

bool ClassicModel::release_oversize(const FitRequest& wanted) {
  if (!options_.max_split_bytes || wanted.expandable) return false;
  if (is_capturing(wanted.stream)) return false;
  const size_t limit = *options_.max_split_bytes;
  const size_t target = std::max(wanted.bytes, limit);
  const std::vector<BlockRef> places = free_blocks_in_order(wanted.list, wanted.stream);
  for (const BlockRef at : places) {
    if (block(at).bytes < target) continue;
    release_segment(block(at).address);
    return true;
  }
  std::vector<uint64_t> addresses;
  size_t released = 0;
  for (auto it = places.rbegin(); it != places.rend() && released < target; ++it) {
    if (block(*it).bytes < limit) break;
    released += block(*it).bytes;
    addresses.push_back(block(*it).address);
  }
  for (uint64_t address : addresses) release_segment(address);
  return released >= target;
}

void ClassicModel::collect_by_age() {
  if (fraction_ >= 1 || options_.garbage_collection_threshold <= 0) return;
  const double limit = fraction_ * static_cast<double>(capacity_bytes_);
  const auto target = static_cast<size_t>(options_.garbage_collection_threshold * limit);
  if (reserved_bytes_ <= target) return;
  const size_t wanted_bytes = reserved_bytes_ - target;
  const FreeListKey list{};
  size_t released = 0;
  while (released < wanted_bytes) {
    std::vector<BlockRef> whole = free_blocks_in_order(list, std::nullopt);
    std::erase_if(whole, [&](BlockRef at) { return segments_[at.segment].blocks.size() > 1; });
    if (whole.empty()) return;
    double total = 0;
    for (const BlockRef at : whole)
      total += static_cast<double>(search_counts_[list] - block(at).search_count_when_freed);
    std::vector<uint64_t> old;
    for (const BlockRef at : whole) {
      const auto age =
          static_cast<double>(search_counts_[list] - block(at).search_count_when_freed);
      const bool counts = age >= total / static_cast<double>(whole.size());
      const Segment& segment = segments_[at.segment];
      if (!counts || segment.expandable || is_capturing(segment.stream)) continue;
      old.push_back(block(at).address);
      released += block(at).bytes;
    }
    if (old.empty()) return;
    for (uint64_t address : old) release_segment(address);
  }
}

void ClassicModel::trim() { release_all(); }

// During a capture the default pool stays cached, because the capture may use it.
void ClassicModel::release_all() {
  if (capturing_.empty()) {
    release_list({{}, false});
    release_list({{}, true});
  }
  for (auto it = pools_.begin(); it != pools_.end();) {
    const PoolId id = it->first;
    if (!it->second.freeable) {
      ++it;
      continue;
    }
    release_list({id, true});
    release_list({id, false});
    const bool is_empty = std::none_of(segments_.begin(), segments_.end(),
                                       [&](const Segment& each) { return each.list.pool == id; });
    it = is_empty ? pools_.erase(it) : std::next(it);
  }
}

void ClassicModel::release_list(const FreeListKey& list) {
  std::vector<uint64_t> whole;
  std::vector<uint64_t> mapped;
  for (const BlockRef at : free_blocks_in_order(list, std::nullopt)) {
    const Segment& segment = segments_[at.segment];
    if (is_capturing(segment.stream)) continue;
    if (segment.expandable) mapped.push_back(block(at).address);
    if (!segment.expandable && segment.blocks.size() == 1) whole.push_back(block(at).address);
  }
  for (uint64_t address : whole) release_segment(address);
  for (uint64_t address : mapped) unmap(address);
  std::erase_if(segments_, [&](const Segment& each) {
    return each.list == list && each.blocks.size() == 1 &&
           each.blocks[0].state == BlockState::kUnmapped;
  });
}

void ClassicModel::release_segment(uint64_t address) {
  const BlockRef at = find(address);
  const size_t bytes = block(at).bytes;
  record(TraceAction::kSegmentFree, address, bytes);
  reserved_bytes_ -= bytes;
  segments_.erase(segments_.begin() + static_cast<ptrdiff_t>(at.segment));
}

// Unmaps the whole granules of a free block. Partial granules at its ends stay free.
void ClassicModel::unmap(uint64_t address) {
  const BlockRef at = find(address);
  Segment& segment = segments_[at.segment];
  const ModelBlock whole = block(at);
  const uint64_t base = segment.blocks[0].address;
  const size_t step = granule(segment.list.is_small);
  const uint64_t begin = base + (whole.address - base + step - 1) / step * step;
  const uint64_t end = base + (whole.address + whole.bytes - base) / step * step;
  if (begin >= end) return;
  record(TraceAction::kSegmentUnmap, begin, end - begin);
  reserved_bytes_ -= end - begin;
  std::vector<ModelBlock> blocks;
  const uint64_t search_count_when_freed = search_counts_[segment.list];
  const auto add = [&](ModelBlock each) {
    if (each.bytes == 0) return;
    const bool merges = !blocks.empty() && blocks.back().state == BlockState::kUnmapped &&
                        each.state == BlockState::kUnmapped;
    if (merges) blocks.back().bytes += each.bytes;
    if (!merges) blocks.push_back(each);
  };
  for (const ModelBlock& each : segment.blocks) {
    if (each.address != whole.address) {
      add(each);
      continue;
    }
    add({whole.address, begin - whole.address, BlockState::kFree, 0, search_count_when_freed});
    add({begin, end - begin, BlockState::kUnmapped});
    add({end, whole.address + whole.bytes - end, BlockState::kFree, 0, search_count_when_freed});
  }
  segment.blocks = std::move(blocks);
}

}  // namespace ashlar::model
