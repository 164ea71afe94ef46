// SPDX-License-Identifier: Apache-2.0
//
// The events of the machine: what each was last recorded for. An event changes its meaning by
// pointing to another completion; whoever waits for the old one keeps it. Thread safe.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "device/sim/completion.h"

namespace ashlar::sim {

// What an event means after being recorded in a capturing stream: nodes, not work.
struct CapturedMark {
  CaptureId capture;
  std::vector<NodeId> nodes;
};

struct Event {
  DeviceIndex device;
  bool timing = false;
  std::shared_ptr<Completion> recorded;          // null: never, or captured
  std::shared_ptr<const CapturedMark> captured;  // null: not captured
};

class Events {
 public:
  EventId create(DeviceIndex device, const EventOptions& options);
  // kInvalidArgument, in all of these: there is no such event (on that device).
  Status destroy(DeviceIndex device, EventId id);
  Result<Event> find(EventId id) const;
  Result<Event> find(DeviceIndex device, EventId id) const;
  Status record(EventId id, std::shared_ptr<Completion> completion);
  Status record(EventId id, CapturedMark mark);

 private:
  mutable SharedMutex mutex_;
  std::unordered_map<EventId, Event> events_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
