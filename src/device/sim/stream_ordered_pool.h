// SPDX-License-Identifier: Apache-2.0
//
// The stream-ordered pool of one simulated device. Reuses a free block as a whole: immediately in
// the stream that freed it, and in other streams once the free has taken effect. Deliberately
// simple: it has the interface of the driver's pool but does not model the driver's policy. Thread
// safe.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "device/sim/address_space.h"
#include "device/sim/physical_memory.h"
#include "device/sim/sim_stream.h"

namespace ashlar::sim {

class StreamOrderedPool {
 public:
  StreamOrderedPool(DeviceIndex device, PhysicalMemory& memory, AddressSpace& addresses)
      : device_(device), memory_(memory), addresses_(addresses) {}

  Result<DeviceAddress> allocate(size_t bytes, StreamId stream);
  // Returns kInvalidArgument if `at` was not allocated from this pool, or is already freed.
  Status check_allocated(DeviceAddress at) const;
  // Frees a block. The free takes effect when `completion` is done. REQUIRES:
  // check_allocated(at).ok().
  Status free(DeviceAddress at, StreamId stream, std::shared_ptr<const Completion> completion);

  DriverPoolStats stats() const;
  void reset_peaks();
  void set_threshold(size_t keep_bytes);
  void trim(size_t keep_bytes);
  // Trims to the threshold. Called after the host has synchronized.
  void trim_to_threshold();

 private:
  struct PoolBlock {
    size_t bytes = 0;
    bool in_use = true;
    StreamId freed_on;
    std::shared_ptr<const Completion> freed;  // null while the block is in use
  };
  // Removes a free block from `free_` and returns its address; null if no block can be reused.
  DeviceAddress take_reusable_locked(size_t bytes, StreamId stream) ASHLAR_REQUIRES(mutex_);
  Result<DeviceAddress> grow_locked(size_t bytes) ASHLAR_REQUIRES(mutex_);
  void trim_locked(size_t keep_bytes) ASHLAR_REQUIRES(mutex_);
  void update_peaks_locked() ASHLAR_REQUIRES(mutex_);

  const DeviceIndex device_;
  PhysicalMemory& memory_;
  AddressSpace& addresses_;

  mutable Mutex mutex_;
  std::map<uint64_t, PoolBlock> blocks_ ASHLAR_GUARDED_BY(mutex_);             // keyed by address
  std::set<std::pair<size_t, DeviceAddress>> free_ ASHLAR_GUARDED_BY(mutex_);  // sorted by size
  DriverPoolStats stats_ ASHLAR_GUARDED_BY(mutex_);
  size_t threshold_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
