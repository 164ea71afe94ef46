// SPDX-License-Identifier: Apache-2.0
//
// The pinned host memory of a machine, both allocated and registered. Thread safe.
#pragma once

#include <map>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::sim {

class SimPinnedMemory {
 public:
  ~SimPinnedMemory();

  // Allocates pinned memory. REQUIRES: `bytes` is not 0.
  Result<void*> allocate(size_t bytes, DeviceIndex device);
  // Returns kInvalidArgument if `memory` is not the start of memory that the device allocated.
  Status check_allocated(const void* memory, DeviceIndex device) const;
  // Frees memory from allocate and returns its size.
  Result<size_t> free(void* memory, DeviceIndex device);
  // These functions add and remove memory that the user registered. kInvalidArgument: the memory to
  // add is null, empty or already partly pinned, or the memory to remove is not the start of
  // registered memory.
  Status add(void* memory, size_t bytes, DeviceIndex device);
  Status remove(void* memory, DeviceIndex device);

  AddressDescription describe(DeviceAddress at) const;

 private:
  struct Range {
    size_t bytes = 0;
    DeviceIndex device;
    bool is_allocated = false;  // true: by allocate(); false: registered by the user
  };
  using Ranges = std::map<DeviceAddress, Range>;

  // Returns the range of that origin and device that starts at `memory`; end() if there is no such
  // range.
  Ranges::const_iterator find_locked(const void* memory, DeviceIndex device,
                                     bool is_allocated) const ASHLAR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Ranges ranges_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::sim
