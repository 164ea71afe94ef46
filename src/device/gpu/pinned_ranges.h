// SPDX-License-Identifier: Apache-2.0
//
// Which host memory is pinned, and by which device of one back end: what it allocated, and what
// programs registered with it. Thread safe; calls no driver.
#pragma once

#include <map>
#include <optional>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::gpu {

enum class PinnedKind { kAllocated, kRegistered };

struct Pinned {
  PinnedKind kind = PinnedKind::kAllocated;
  DeviceIndex owner;
  AddressRange range;
  void* from_driver = nullptr;  // what the driver takes back; range.begin or somewhat before it
};

class PinnedRanges {
 public:
  // kInvalidArgument: some part of the range is in here already.
  Status add(const Pinned& pinned);
  // What was added, which is gone now. kInvalidArgument: none of that kind and owner starts there.
  Result<Pinned> remove(PinnedKind kind, const void* memory, DeviceIndex owner);
  std::optional<AddressDescription> describe(DeviceAddress at) const;

 private:
  mutable Mutex mutex_;
  std::map<DeviceAddress, Pinned> ranges_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::gpu
