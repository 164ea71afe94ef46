// SPDX-License-Identifier: Apache-2.0
//
// Stores events by id.
#include "device/sim/event_table.h"

#include "base/text.h"

namespace ashlar::sim {
namespace {

Status unknown_event_error(EventId id) {
  return Status::invalid_argument(text("there is no event ", id));
}

}  // namespace

EventId EventTable::create(DeviceIndex device, const EventOptions& options) {
  WriterLock lock(mutex_);
  const EventId id(++last_id_);
  events_.emplace(id, SimEvent{device, options.timing, nullptr, nullptr});
  return id;
}

Status EventTable::destroy(DeviceIndex device, EventId id) {
  if (Result<SimEvent> event = find(device, id); !event.ok()) return event.status();
  WriterLock lock(mutex_);
  return events_.erase(id) == 1 ? Status() : unknown_event_error(id);
}

Result<SimEvent> EventTable::find(EventId id) const {
  ReaderLock lock(mutex_);
  const auto found = events_.find(id);
  if (found == events_.end()) return unknown_event_error(id);
  return found->second;
}

Result<SimEvent> EventTable::find(DeviceIndex device, EventId id) const {
  Result<SimEvent> event = find(id);
  if (event.ok() && event->device != device) {
    return Status::invalid_argument(
        text("event ", id, " belongs to device ", event->device, ", not to ", device));
  }
  return event;
}

Status EventTable::record(EventId id, std::shared_ptr<Completion> completion) {
  WriterLock lock(mutex_);
  const auto found = events_.find(id);
  if (found == events_.end()) return unknown_event_error(id);
  found->second.recorded = std::move(completion);
  found->second.captured = nullptr;
  return {};
}

Status EventTable::record(EventId id, CapturedEvent mark) {
  auto captured = std::make_shared<const CapturedEvent>(std::move(mark));
  WriterLock lock(mutex_);
  const auto found = events_.find(id);
  if (found == events_.end()) return unknown_event_error(id);
  found->second.recorded = nullptr;
  found->second.captured = std::move(captured);
  return {};
}

}  // namespace ashlar::sim
