// SPDX-License-Identifier: Apache-2.0
//
// The pinned host memory of all devices of one back end, both allocated and registered. Thread
// safe; calls no driver.
#pragma once

#include <map>
#include <optional>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::gpu {

enum class PinnedKind { kAllocated, kRegistered };

struct PinnedRange {
  PinnedKind kind = PinnedKind::kAllocated;
  DeviceIndex owner;
  AddressRange range;
  void* driver_pointer = nullptr;  // the pointer that the driver expects; at or before range.begin
};

class PinnedMemoryRegistry {
 public:
  // Adds a range. kInvalidArgument: part of the range is already pinned.
  Status add(const PinnedRange& pinned);
  // Removes and returns the range that starts at `memory`. kInvalidArgument: no range of that kind
  // and owner starts at this address.
  Result<PinnedRange> remove(PinnedKind kind, const void* memory, DeviceIndex owner);
  std::optional<AddressDescription> describe(DeviceAddress at) const;

 private:
  mutable Mutex mutex_;
  std::map<DeviceAddress, PinnedRange> ranges_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::gpu
