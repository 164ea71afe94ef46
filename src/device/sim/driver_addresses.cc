// First the holes, then a new chunk.
#include "device/sim/driver_addresses.h"

#include <iterator>

#include "base/align.h"

namespace ashlar::sim {
namespace {

constexpr size_t kChunkBytes = size_t{32} << 20;

}  // namespace

DriverAddresses::DriverAddresses(uint64_t begin, uint64_t end)
    : begin_(align_up(begin, kChunkBytes)), end_(end / kChunkBytes * kChunkBytes) {}

uint64_t DriverAddresses::take(size_t bytes) {
  if (bytes == 0 || bytes > end_ - begin_) return 0;
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
    chunks_.erase(chunk);
  } else {
    holes_[begin] = end - begin;
  }
}

std::map<uint64_t, DriverAddresses::Chunk>::iterator DriverAddresses::chunk_of(uint64_t at) {
  return std::prev(chunks_.upper_bound(at));
}

// In the highest gap between chunks that is wide enough, at its upper end; all of it a hole.
uint64_t DriverAddresses::new_chunk(size_t bytes) {
  const size_t chunk_bytes = align_up_to(bytes, kChunkBytes);
  uint64_t top = end_;
  for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
    if (top - (chunk->first + chunk->second.bytes) >= chunk_bytes) break;
    top = chunk->first;
  }
  if (top - begin_ < chunk_bytes) return 0;
  const uint64_t at = top - chunk_bytes;
  chunks_[at] = {chunk_bytes, 0};
  holes_[at] = chunk_bytes;
  return at;
}

}  // namespace ashlar::sim
