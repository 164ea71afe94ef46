// SPDX-License-Identifier: Apache-2.0
//
// Records, polls and recycles events.
#include "engine/event_queues.h"

#include "base/host_memory.h"

namespace ashlar {

EventQueues::~EventQueues() {
  for (auto& [key, queue] : queues_) {
    for (const PendingEvent& pending : queue.events) {
      (void)queue.device->destroy_event(pending.event).ok();
    }
  }
  for (auto& [device, events] : events_) {
    for (EventId event : events.idle) (void)device->destroy_event(event).ok();
  }
}

Status EventQueues::add(Block* block) {
  while (!block->uses.empty()) {
    const DeviceStream use = block->uses.back();
    Status recorded = without_bad_alloc([&] { return record_event(block, use); });
    if (!recorded.ok()) return recorded;
    ++block->event_count;
    block->uses.pop_back();
  }
  return {};
}

// Creates the queue entry first, because a recorded event must not be lost.
Status EventQueues::record_event(Block* block, const DeviceStream& use) {
  Device& device = *use.device;
  const auto entry = queues_.try_emplace({device.properties().index.value(), use.stream}).first;
  Queue& queue = entry->second;
  ScopeGuard erase_queue([&] {
    if (queue.events.empty()) queues_.erase(entry);
  });
  queue.device = &device;
  queue.events.push_back({{}, block});
  ScopeGuard erase_entry([&] { queue.events.pop_back(); });
  const Result<EventId> event = acquire_event(device);
  if (!event.ok()) return event.status();
  if (Status recorded = device.record_event(*event, use.stream); !recorded.ok()) {
    recycle_event(device, *event);
    return recorded;
  }
  queue.events.back().event = *event;
  erase_entry.dismiss();
  erase_queue.dismiss();
  return {};
}

Status EventQueues::collect_finished(std::vector<Block*>& finished) {
  for (auto it = queues_.begin(); it != queues_.end();) {
    Queue& queue = it->second;
    while (!queue.events.empty()) {
      const PendingEvent first = queue.events.front();
      Result<bool> done = queue.device->is_done(first.event);
      if (!done.ok()) return done.status();
      if (!*done) break;
      reserve_amortized(finished, finished.size() + 1);
      queue.events.pop_front();
      recycle_event(*queue.device, first.event);
      complete_event(first.block, finished);
    }
    it = queue.events.empty() ? queues_.erase(it) : std::next(it);
  }
  return {};
}

Status EventQueues::wait_for_all(std::vector<Block*>& finished,
                                 const std::function<bool(const Block&)>& wanted) {
  for (auto it = queues_.begin(); it != queues_.end();) {
    Queue& queue = it->second;
    finished.reserve(finished.size() + queue.events.size());
    if (Status waited = wait_for_queue(queue, finished, wanted); !waited.ok()) return waited;
    it = queue.events.empty() ? queues_.erase(it) : std::next(it);
  }
  return {};
}

// REQUIRES: `finished` has capacity for all blocks of the queue.
Status EventQueues::wait_for_queue(Queue& queue, std::vector<Block*>& finished,
                                   const std::function<bool(const Block&)>& wanted) {
  std::deque<PendingEvent>& events = queue.events;
  Status waited;
  auto kept_end = events.begin();  // the end of the events to keep
  auto next = events.begin();
  for (; next != events.end(); ++next) {
    const PendingEvent pending = *next;
    if (wanted && !wanted(*pending.block)) {
      *kept_end++ = pending;
      continue;
    }
    waited = queue.device->synchronize_event(pending.event);
    if (!waited.ok()) break;
    recycle_event(*queue.device, pending.event);
    complete_event(pending.block, finished);
  }
  events.erase(kept_end, next);
  return waited;
}

// A block with remaining uses is not finished: no event could be recorded yet for these uses.
void EventQueues::complete_event(Block* block, std::vector<Block*>& finished) {
  if (--block->event_count == 0 && block->uses.empty()) finished.push_back(block);
}

Result<EventId> EventQueues::acquire_event(Device& device) {
  DeviceEvents& events = events_[&device];
  if (!events.idle.empty()) {
    const EventId event = events.idle.back();
    events.idle.pop_back();
    return event;
  }
  reserve_amortized(events.idle, events.created_count + 1);
  Result<EventId> created = device.create_event();
  if (created.ok()) ++events.created_count;
  return created;
}

void EventQueues::recycle_event(Device& device, EventId event) {
  events_.find(&device)->second.idle.push_back(event);
}

}  // namespace ashlar
