// SPDX-License-Identifier: Apache-2.0
//
// The simulated driver's stream-ordered pool of one device: whole blocks, each with an address of
// its own, reused when the stream that freed them asks again, or when the free has happened.
// A stand-in for what drivers offer, not a policy to admire. Thread safe.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "device/sim/address_space.h"
#include "device/sim/completion.h"
#include "device/sim/physical_memory.h"

namespace ashlar::sim {

class StreamPool {
 public:
  StreamPool(DeviceIndex device, PhysicalMemory& memory, AddressSpace& addresses)
      : device_(device), memory_(memory), addresses_(addresses) {}

  Result<DeviceAddress> allocate(size_t bytes, StreamId stream);
  // kInvalidArgument: not allocated here, or freed already.
  Status check_allocated(DeviceAddress at) const;
  // The free happens with `completion`. REQUIRES: check_allocated(at) was ok.
  Status free(DeviceAddress at, StreamId stream, std::shared_ptr<const Completion> completion);

  DriverPoolStats stats() const;
  void reset_peaks();
  void set_threshold(size_t keep_bytes);
  void trim(size_t keep_bytes);
  // The host has synchronized: keep no more than the threshold.
  void trim_to_threshold();

 private:
  struct Block {
    size_t bytes = 0;
    bool in_use = true;
    StreamId freed_on;
    std::shared_ptr<const Completion> freed;  // null while in use
  };
  // Null: there is none.
  DeviceAddress take_reusable_locked(size_t bytes, StreamId stream) ASHLAR_REQUIRES(mutex_);
  Result<DeviceAddress> grow_locked(size_t bytes) ASHLAR_REQUIRES(mutex_);
  void trim_locked(size_t keep_bytes) ASHLAR_REQUIRES(mutex_);
  void note_peaks_locked() ASHLAR_REQUIRES(mutex_);

  const DeviceIndex device_;
  PhysicalMemory& memory_;
  AddressSpace& addresses_;

  mutable Mutex mutex_;
  std::unordered_map<uint64_t, Block> blocks_ ASHLAR_GUARDED_BY(mutex_);       // by address
  std::set<std::pair<size_t, DeviceAddress>> free_ ASHLAR_GUARDED_BY(mutex_);  // by size
  DriverPoolStats use_ ASHLAR_GUARDED_BY(mutex_);
  size_t threshold_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
