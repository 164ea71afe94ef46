// SPDX-License-Identifier: Apache-2.0
//
// Keeps the pinned ranges in a map that is ordered by address.
#include "device/gpu/pinned_memory_registry.h"

#include "base/text.h"

namespace ashlar::gpu {

Status PinnedMemoryRegistry::add(const PinnedRange& pinned) {
  const AddressRange range = pinned.range;
  MutexLock lock(mutex_);
  const auto after = ranges_.lower_bound(range.begin);
  const bool hits_next = after != ranges_.end() && after->first < range.end();
  const bool hits_previous =
      after != ranges_.begin() && std::prev(after)->second.range.end() > range.begin;
  if (hits_next || hits_previous) {
    return Status::invalid_argument(text("some part of ", range, " is pinned already"));
  }
  ranges_.emplace(range.begin, pinned);
  return {};
}

Result<PinnedRange> PinnedMemoryRegistry::remove(PinnedKind kind, const void* memory,
                                                 DeviceIndex owner) {
  const DeviceAddress at(reinterpret_cast<uint64_t>(memory));
  MutexLock lock(mutex_);
  const auto found = ranges_.find(at);
  if (found == ranges_.end() || found->second.kind != kind || found->second.owner != owner) {
    return Status::invalid_argument(
        text("no host memory that device ", owner,
             kind == PinnedKind::kAllocated ? " allocated" : " registered", " starts at ", at));
  }
  const PinnedRange pinned = found->second;
  ranges_.erase(found);
  return pinned;
}

std::optional<AddressDescription> PinnedMemoryRegistry::describe(DeviceAddress at) const {
  MutexLock lock(mutex_);
  const auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return std::nullopt;
  const PinnedRange& pinned = std::prev(after)->second;
  if (!pinned.range.contains(at)) return std::nullopt;
  return AddressDescription{MemoryKind::kHost, pinned.owner, pinned.range};
}

}  // namespace ashlar::gpu
