// SPDX-License-Identifier: Apache-2.0
//
// The events of a machine, each with the completion of the work for which the event was last
// recorded. Recording an event again replaces the completion; existing waits keep the old
// completion. Thread safe.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "device/sim/sim_stream.h"

namespace ashlar::sim {

// The nodes that an event represents after it was recorded in a capturing stream.
struct CapturedEvent {
  CaptureId capture;
  std::vector<NodeId> nodes;
};

struct SimEvent {
  DeviceIndex device;
  bool timing = false;
  std::shared_ptr<Completion> recorded;           // null if not recorded, or recorded in a capture
  std::shared_ptr<const CapturedEvent> captured;  // null unless recorded in a capture
};

class EventTable {
 public:
  EventId create(DeviceIndex device, const EventOptions& options);
  // All functions below return kInvalidArgument if there is no such event, or if the event does not
  // belong to the device, where one is given.
  Status destroy(DeviceIndex device, EventId id);
  Result<SimEvent> find(EventId id) const;
  Result<SimEvent> find(DeviceIndex device, EventId id) const;
  Status record(EventId id, std::shared_ptr<Completion> completion);
  Status record(EventId id, CapturedEvent mark);

 private:
  mutable SharedMutex mutex_;
  std::unordered_map<EventId, SimEvent> events_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
