// First the holes, then a new chunk.
#include "device/sim/driver_addresses.h"

#include <algorithm>
#include <iterator>

#include "base/align.h"

namespace ashlar::sim {
namespace {

constexpr size_t kChunkBytes = size_t{32} << 20;

}  // namespace

DriverAddresses::DriverAddresses(uint64_t begin, uint64_t end)
    : begin_(align_up(begin, kChunkBytes)), lowest_(end / kChunkBytes * kChunkBytes) {}

uint64_t DriverAddresses::take(size_t bytes) {
  if (bytes == 0 || bytes > SIZE_MAX / 2) return 0;
  auto hole = holes_.begin();
  while (hole != holes_.end() && hole->second < bytes) ++hole;
  uint64_t at = 0;
  if (hole != holes_.end()) {
    at = hole->first;
  } else {
    at = new_chunk(bytes);
    if (at == 0) return 0;
    hole = holes_.find(at);
  }
  const size_t rest_bytes = hole->second - bytes;
  holes_.erase(hole);
  if (rest_bytes > 0) holes_[at + bytes] = rest_bytes;
  taken_[at] = bytes;
  ++chunk_of(at)->second.used_count;
  return at;
}

void DriverAddresses::give_back(uint64_t at) {
  const auto taken = taken_.find(at);
  if (taken == taken_.end()) return;
  uint64_t begin = at;
  uint64_t end = at + taken->second;
  taken_.erase(taken);
  const auto chunk = chunk_of(at);
  const uint64_t chunk_end = chunk->first + chunk->second.bytes;
  if (const auto after = holes_.find(end); after != holes_.end() && end < chunk_end) {
    end += after->second;
    holes_.erase(after);
  }
  const auto next = holes_.lower_bound(begin);
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    const bool touches = before->first + before->second == begin && begin > chunk->first;
    if (touches) {
      begin = before->first;
      holes_.erase(before);
    }
  }
  if (--chunk->second.used_count == 0) {
    add_gap(chunk->first, chunk_end);
    chunks_.erase(chunk);
  } else {
    holes_[begin] = end - begin;
  }
}

std::map<uint64_t, DriverAddresses::Chunk>::iterator DriverAddresses::chunk_of(uint64_t at) {
  return std::prev(chunks_.upper_bound(at));
}

// In the highest gap that is wide enough, at its upper end, or below everything; all of it a hole.
uint64_t DriverAddresses::new_chunk(size_t bytes) {
  const size_t chunk_bytes = align_up_to(bytes, kChunkBytes);
  const auto fits = [&](const auto& gap) { return gap.second >= chunk_bytes; };
  const auto gap = std::find_if(gaps_.rbegin(), gaps_.rend(), fits);
  uint64_t at = 0;
  if (gap != gaps_.rend()) {
    gap->second -= chunk_bytes;
    at = gap->first + gap->second;
    if (gap->second == 0) gaps_.erase(gap->first);
  } else {
    if (lowest_ < begin_ || lowest_ - begin_ < chunk_bytes) return 0;
    at = lowest_ -= chunk_bytes;
  }
  chunks_[at] = {chunk_bytes, 0};
  holes_[at] = chunk_bytes;
  return at;
}

void DriverAddresses::add_gap(uint64_t begin, uint64_t end) {
  if (const auto after = gaps_.find(end); after != gaps_.end()) {
    end += after->second;
    gaps_.erase(after);
  }
  const auto next = gaps_.lower_bound(begin);
  if (next != gaps_.begin() && std::prev(next)->first + std::prev(next)->second == begin) {
    begin = std::prev(next)->first;
    gaps_.erase(std::prev(next));
  }
  gaps_[begin] = end - begin;
}

}  // namespace ashlar::sim
