// SPDX-License-Identifier: Apache-2.0
//
// The streams of the machine, by device and id: made, found, retired; and waiting for their work.
// Thread safe.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ashlar/device.h"
#include "ashlar/sim.h"
#include "base/mutex.h"
#include "device/sim/scheduler.h"
#include "device/sim/stream.h"

namespace ashlar::sim {

class Streams {
 public:
  // Every device has its default stream from the start.
  Streams(const Options& options, Clock& clock);
  // Drops what is queued, everywhere, before it waits for what is running: a task may be waiting
  // for one that was dropped.
  ~Streams();

  StreamId create(DeviceIndex device, int priority);
  // kInvalidArgument: not a stream of this device, or its default one.
  Result<std::shared_ptr<Stream>> find(DeviceIndex device, StreamId id) const;
  Status destroy(DeviceIndex device, StreamId id);
  std::vector<std::shared_ptr<Stream>> of_device(DeviceIndex device) const;

  // Waits on the host, or runs work until it is done. kDeviceFault: with a seed, never done.
  Status wait(const Completion& awaited);

  Scheduler* scheduler() { return scheduler_.get(); }  // null without a seed

 private:
  std::shared_ptr<Stream> make(DeviceIndex device, int priority);

  Clock& clock_;
  const std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::shared_ptr<Stream>> defaults_;  // by device; constant after construction

  mutable SharedMutex mutex_;
  std::unordered_map<StreamId, std::shared_ptr<Stream>> streams_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Stream>> retired_ ASHLAR_GUARDED_BY(mutex_);  // destroyed, still busy
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
