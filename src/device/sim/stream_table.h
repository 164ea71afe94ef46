// SPDX-License-Identifier: Apache-2.0
//
// The streams of a machine, found by device and id, and destroyed streams that may still have work.
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
  ~StreamTable() { stop(); }

  // Drops queued tasks of all streams, and waits for running tasks. Later tasks are dropped. Drops
  // before it waits: a running task may wait for the completion of a queued task, and dropping a
  // task finishes its completion.
  void stop();

  StreamId create(DeviceIndex device, int priority);
  // Returns a stream; `id` may be kDefaultStream. kInvalidArgument: `id` is not a stream of the
  // device.
  Result<std::shared_ptr<SimStream>> find(DeviceIndex device, StreamId id) const;
  // Removes the stream, and lets its queued work finish. kInvalidArgument: `id` is not a stream of
  // the device, or is kDefaultStream.
  Status destroy(DeviceIndex device, StreamId id);
  // Returns all streams of the device, including the default stream and destroyed streams that may
  // still have work.
  std::vector<std::shared_ptr<SimStream>> streams_of(DeviceIndex device) const;

  // Blocks until `awaited` is done; with a seed, runs work until then. kDeviceFault: with a seed,
  // no work can run.
  Status wait(const Completion& awaited);

  Scheduler* scheduler() { return scheduler_.get(); }  // null without a seed

 private:
  std::shared_ptr<SimStream> make_stream(DeviceIndex device, int priority);

  Clock& clock_;
  const std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::shared_ptr<SimStream>>
      default_streams_;  // indexed by device; constant after construction

  mutable SharedMutex mutex_;
  std::unordered_map<StreamId, std::shared_ptr<SimStream>> streams_ ASHLAR_GUARDED_BY(mutex_);
  // Streams that the user destroyed, but that may still have work.
  std::vector<std::shared_ptr<SimStream>> retired_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
