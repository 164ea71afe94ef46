// SPDX-License-Identifier: Apache-2.0
//
// Maps the ids of events to the driver's handles.
#include "device/gpu/event_registry.h"

#include "base/text.h"

namespace ashlar::gpu {

EventId EventRegistry::add(DeviceIndex owner, Handle event) {
  WriterLock lock(mutex_);
  const EventId id(++last_id_);
  events_.emplace(id, Event{owner, event});
  return id;
}

Result<Handle> EventRegistry::find(EventId event) const {
  ReaderLock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return Status::invalid_argument(text("there is no event ", event));
  return found->second.handle;
}

Result<Handle> EventRegistry::find(EventId event, DeviceIndex owner) const {
  ReaderLock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end() || found->second.owner != owner) {
    return Status::invalid_argument(text("event ", event, " is not an event of device ", owner));
  }
  return found->second.handle;
}

Result<EventRegistry::Removed> EventRegistry::remove(EventId event, DeviceIndex owner) {
  WriterLock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end() || found->second.owner != owner) {
    return Status::invalid_argument(text("event ", event, " is not an event of device ", owner));
  }
  return Removed(events_.extract(found));
}

void EventRegistry::restore(Removed removed) {
  WriterLock lock(mutex_);
  events_.insert(std::move(removed.node_));
}

}  // namespace ashlar::gpu
