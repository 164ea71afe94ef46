// SPDX-License-Identifier: Apache-2.0
//
// The streams of a machine, keyed by device and id, including destroyed ones that still have work.
// Thread safe.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ashlar/device.h"
#include "ashlar/sim.h"
#include "base/mutex.h"
#include "device/sim/scheduler.h"
#include "device/sim/sim_stream.h"

namespace ashlar::sim {

class StreamTable {
 public:
  // Creates the default stream of every device.
  StreamTable(const Options& options, Clock& clock);
  // Drops the queued work of all streams before it waits for running work: a running task may wait
  // for a queued one.
  ~StreamTable();

  StreamId create(DeviceIndex device, int priority);
  // kInvalidArgument: not a stream of this device, or its default one.
  Result<std::shared_ptr<SimStream>> find(DeviceIndex device, StreamId id) const;
  Status destroy(DeviceIndex device, StreamId id);
  std::vector<std::shared_ptr<SimStream>> streams_of(DeviceIndex device) const;

  // Blocks until `awaited` is done; with a seed, runs work until then. kDeviceFault: with a seed,
  // no work can run.
  Status wait(const Completion& awaited);

  Scheduler* scheduler() { return scheduler_.get(); }  // null without a seed

 private:
  std::shared_ptr<SimStream> make(DeviceIndex device, int priority);

  Clock& clock_;
  const std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::shared_ptr<SimStream>> defaults_;  // indexed by device; constant

  mutable SharedMutex mutex_;
  std::unordered_map<StreamId, std::shared_ptr<SimStream>> streams_ ASHLAR_GUARDED_BY(mutex_);
  // Destroyed by the user, but still busy.
  std::vector<std::shared_ptr<SimStream>> retired_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
