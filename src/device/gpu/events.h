// SPDX-License-Identifier: Apache-2.0
//
// The events of all devices of one back end. A driver handed an event that it never gave out may
// end the process, so ids are looked up here first. Thread safe; calls no driver.
#pragma once

#include <unordered_map>

#include "ashlar/types.h"
#include "base/mutex.h"
#include "device/gpu/driver.h"

namespace ashlar::gpu {

class Events {
 public:
  EventId add(DeviceIndex owner, Handle event);
  // kInvalidArgument: no event, of any device; or of that one.
  Result<Handle> find(EventId event) const;
  Result<Handle> find(EventId event, DeviceIndex owner) const;
  // The handle, and the id is gone. Fails as find does.
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
