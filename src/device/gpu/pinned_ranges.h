// Which host memory is pinned, and by which device of one back end: what it allocated, and what
// programs registered with it. Thread safe; calls no driver.
#pragma once

#include <map>
#include <optional>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::gpu {

enum class PinnedKind { kAllocated, kRegistered };

class PinnedRanges {
 public:
  // kUsage: some part of the range is in here already.
  Status add(PinnedKind kind, AddressRange range, DeviceIndex owner);
  // The range that was added, which is gone now. kUsage: none of that kind and owner starts there.
  Result<AddressRange> remove(PinnedKind kind, DeviceAddress at, DeviceIndex owner);
  std::optional<AddressDescription> describe(DeviceAddress at) const;

 private:
  struct Pinned {
    size_t bytes = 0;
    PinnedKind kind = PinnedKind::kAllocated;
    DeviceIndex owner;
  };

  mutable Mutex mutex_;
  std::map<DeviceAddress, Pinned> ranges_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::gpu
