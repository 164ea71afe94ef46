// SPDX-License-Identifier: Apache-2.0
//
// The events of all devices of one back end. GpuDevice looks up an event's id here before it calls
// the driver, which may crash on an invalid handle. Thread safe; calls no driver.
#pragma once

#include <unordered_map>
#include <utility>

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

  // A removed event. Does not destroy the driver's event.
  class Removed;
  // Removes the id, so that no other call can use the event. Fails like `find` with an owner.
  Result<Removed> remove(EventId event, DeviceIndex owner);
  // Adds a removed event again, under its id.
  void restore(Removed removed);

 private:
  struct Event {
    DeviceIndex owner;
    Handle handle = 0;
  };
  using Events = std::unordered_map<EventId, Event>;

  mutable SharedMutex mutex_;
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
  Events events_ ASHLAR_GUARDED_BY(mutex_);
};

class EventRegistry::Removed {
 public:
  Handle handle() const { return node_.mapped().handle; }

 private:
  friend class EventRegistry;
  explicit Removed(Events::node_type node) : node_(std::move(node)) {}

  Events::node_type node_;  // not empty; kept because a new node would need host memory
};

}  // namespace ashlar::gpu
