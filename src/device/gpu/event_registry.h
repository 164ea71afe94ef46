// SPDX-License-Identifier: Apache-2.0
//
// The events of all devices of one back end. GpuDevice looks up an event's id here before it calls
// the driver, which may crash on an invalid handle. Thread safe; calls no driver.
#pragma once

#include <unordered_map>

#include "ashlar/types.h"
#include "base/mutex.h"
#include "device/gpu/driver.h"

namespace ashlar::gpu {

class EventRegistry {
 public:
  EventId add(DeviceIndex owner, Handle event);
  // These functions return the driver's handle of an event. kInvalidArgument: there is no such
  // event, or (second function only) the event does not belong to `owner`.
  Result<Handle> find(EventId event) const;
  Result<Handle> find(EventId event, DeviceIndex owner) const;
  // Removes the id and returns the handle. Fails like `find` with an owner.
  Result<Handle> remove(EventId event, DeviceIndex owner);

 private:
  struct Event {
    DeviceIndex owner;
    Handle handle = 0;
  };

  mutable SharedMutex mutex_;
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::unordered_map<EventId, Event> events_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::gpu
