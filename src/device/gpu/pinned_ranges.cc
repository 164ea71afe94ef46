// One ordered map.
#include "device/gpu/pinned_ranges.h"

#include "base/text.h"

namespace ashlar::gpu {

Status PinnedRanges::add(PinnedKind kind, AddressRange range, DeviceIndex owner) {
  MutexLock lock(mutex_);
  const auto after = ranges_.lower_bound(range.begin);
  const bool hits_next = after != ranges_.end() && after->first < range.end();
  bool hits_previous = false;
  if (after != ranges_.begin()) {
    const auto previous = std::prev(after);
    hits_previous = previous->first + previous->second.bytes > range.begin;
  }
  if (hits_next || hits_previous) {
    return Status::usage(text("some part of ", range, " is pinned already"));
  }
  ranges_.emplace(range.begin, Pinned{range.bytes, kind, owner});
  return {};
}

Result<AddressRange> PinnedRanges::remove(PinnedKind kind, DeviceAddress at, DeviceIndex owner) {
  MutexLock lock(mutex_);
  const auto found = ranges_.find(at);
  if (found == ranges_.end() || found->second.kind != kind || found->second.owner != owner) {
    return Status::usage(text("no host memory that device ", owner,
                              kind == PinnedKind::kAllocated ? " allocated" : " registered",
                              " starts at ", at));
  }
  const AddressRange range{at, found->second.bytes};
  ranges_.erase(found);
  return range;
}

std::optional<AddressDescription> PinnedRanges::describe(DeviceAddress at) const {
  MutexLock lock(mutex_);
  const auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return std::nullopt;
  const auto& [begin, pinned] = *std::prev(after);
  if (at - begin >= pinned.bytes) return std::nullopt;
  return AddressDescription{MemoryKind::kHost, pinned.owner, {begin, pinned.bytes}};
}

}  // namespace ashlar::gpu
