// SPDX-License-Identifier: Apache-2.0
//
// Reuses the best-fitting block or allocates a new block, and trims unused blocks.
#include "device/sim/stream_ordered_pool.h"

#include <algorithm>

#include "base/align.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar::sim {
namespace {

constexpr size_t kBlockAlignmentBytes = 64 * kKiB;

}  // namespace

Result<DeviceAddress> StreamOrderedPool::allocate(size_t bytes, StreamId stream) {
  const auto rounded = try_align_up(bytes, kBlockAlignmentBytes);
  if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
  if (!rounded) return Status::out_of_memory(text("no device has ", bytes, " B"));
  MutexLock lock(mutex_);
  DeviceAddress at = take_reusable_locked(*rounded, stream);
  if (at.is_null()) {
    Result<DeviceAddress> grown = grow_locked(*rounded);
    if (!grown.ok()) return grown;
    at = *grown;
  }
  PoolBlock& block = blocks_[at.value()];
  block.in_use = true;
  block.freed = nullptr;
  stats_.used_bytes += block.bytes;
  update_peaks_locked();
  return at;
}

// Picks the smallest reusable block that has at most twice the requested size. A block freed in the
// same stream is reusable immediately, because later work of the stream runs after the free; a
// block freed in another stream is reusable once the free is done.
DeviceAddress StreamOrderedPool::take_reusable_locked(size_t bytes, StreamId stream) {
  for (auto it = free_.lower_bound({bytes, {}}); it != free_.end() && it->first <= 2 * bytes;
       ++it) {
    const PoolBlock& block = blocks_.at(it->second.value());
    if (block.freed_on != stream && !block.freed->is_done()) continue;
    const DeviceAddress at = it->second;
    free_.erase(it);
    return at;
  }
  return {};
}

Result<DeviceAddress> StreamOrderedPool::grow_locked(size_t bytes) {
  Result<std::shared_ptr<Extent>> extent = memory_.create_extent(bytes, {});
  if (!extent.ok() && extent.status().is_out_of_memory()) {
    trim_locked(0);
    extent = memory_.create_extent(bytes, {});
  }
  if (!extent.ok()) return extent.status();
  std::map<uint64_t, PoolBlock> staged;  // allocated before the first change
  staged[0].bytes = bytes;
  Result<DeviceAddress> at = addresses_.allocate(*std::move(extent), device_, MappingKind::kPool);
  if (!at.ok()) return at;
  auto node = staged.extract(staged.begin());
  node.key() = at->value();
  blocks_.insert(std::move(node));
  stats_.reserved_bytes += bytes;
  return at;
}

Status StreamOrderedPool::check_allocated(DeviceAddress at) const {
  MutexLock lock(mutex_);
  const auto found = blocks_.find(at.value());
  if (found != blocks_.end() && found->second.in_use) return {};
  return Status::invalid_argument(text(at, " is not allocated from the pool of device ", device_));
}

Status StreamOrderedPool::free(DeviceAddress at, StreamId stream,
                               std::shared_ptr<const Completion> completion) {
  MutexLock lock(mutex_);
  const auto found = blocks_.find(at.value());
  if (found == blocks_.end() || !found->second.in_use) {
    return Status::invalid_argument(text(at, " was freed already"));
  }
  PoolBlock& block = found->second;
  free_.insert({block.bytes, at});  // first, because only this may throw std::bad_alloc
  block.in_use = false;
  block.freed_on = stream;
  block.freed = std::move(completion);
  stats_.used_bytes -= block.bytes;
  return {};
}

DriverPoolStats StreamOrderedPool::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

void StreamOrderedPool::reset_peaks() {
  MutexLock lock(mutex_);
  stats_.reserved_peak_bytes = stats_.reserved_bytes;
  stats_.used_peak_bytes = stats_.used_bytes;
}

void StreamOrderedPool::set_threshold(size_t keep_bytes) {
  MutexLock lock(mutex_);
  threshold_bytes_ = keep_bytes;
}

void StreamOrderedPool::trim(size_t keep_bytes) {
  MutexLock lock(mutex_);
  trim_locked(keep_bytes);
}

void StreamOrderedPool::trim_to_threshold() {
  MutexLock lock(mutex_);
  trim_locked(threshold_bytes_);
}

void StreamOrderedPool::trim_locked(size_t keep_bytes) {
  for (auto it = free_.begin(); it != free_.end() && stats_.reserved_bytes > keep_bytes;) {
    const auto [bytes, at] = *it;
    const bool unused = blocks_.at(at.value()).freed->is_done();
    if (!unused || !addresses_.free(at, device_, MappingKind::kPool).ok()) {
      ++it;
      continue;
    }
    stats_.reserved_bytes -= bytes;
    blocks_.erase(at.value());
    it = free_.erase(it);
  }
}

void StreamOrderedPool::update_peaks_locked() {
  stats_.reserved_peak_bytes = std::max(stats_.reserved_peak_bytes, stats_.reserved_bytes);
  stats_.used_peak_bytes = std::max(stats_.used_peak_bytes, stats_.used_bytes);
}

}  // namespace ashlar::sim
