// SPDX-License-Identifier: Apache-2.0
//
// The pinned host memory of all devices of one back end, allocated and registered. Thread safe;
// calls no driver.
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
  void* from_driver = nullptr;  // the pointer the driver returned; at or before range.begin
};

class PinnedMemoryRegistry {
 public:
  // kInvalidArgument: part of the range is pinned already.
  Status add(const Pinned& pinned);
  // Removes and returns the range. kInvalidArgument: none of that kind and owner starts there.
  Result<Pinned> remove(PinnedKind kind, const void* memory, DeviceIndex owner);
  std::optional<AddressDescription> describe(DeviceAddress at) const;

 private:
  mutable Mutex mutex_;
  std::map<DeviceAddress, Pinned> ranges_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::gpu
