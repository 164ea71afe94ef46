// SPDX-License-Identifier: Apache-2.0
//
// Records, polls and recycles events.
#include "engine/event_queues.h"

namespace ashlar {

EventQueues::~EventQueues() {
  for (auto& [key, queue] : queues_) {
    for (const PendingEvent& pending : queue.events) {
      (void)queue.device->destroy_event(pending.event).ok();
    }
  }
  for (auto& [device, events] : idle_events_) {
    for (EventId event : events) (void)device->destroy_event(event).ok();
  }
}

Status EventQueues::add(Block* block) {
  while (!block->uses.empty()) {
    const DeviceStream use = block->uses.back();
    Result<EventId> event = acquire_event(*use.device);
    if (!event.ok()) return event.status();
    if (Status recorded = use.device->record_event(*event, use.stream); !recorded.ok()) {
      recycle_event(*use.device, *event);
      return recorded;
    }
    Queue& queue = queues_[{use.device->properties().index.value(), use.stream}];
    queue.device = use.device;
    queue.events.push_back({*event, block});
    ++block->event_count;
    block->uses.pop_back();
  }
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
    std::deque<PendingEvent> left;
    while (!queue.events.empty()) {
      const PendingEvent first = queue.events.front();
      if (wanted && !wanted(*first.block)) {
        left.push_back(first);
        queue.events.pop_front();
        continue;
      }
      if (Status done = queue.device->synchronize_event(first.event); !done.ok()) {
        queue.events.insert(queue.events.begin(), left.begin(), left.end());
        return done;
      }
      queue.events.pop_front();
      recycle_event(*queue.device, first.event);
      complete_event(first.block, finished);
    }
    queue.events = std::move(left);
    it = queue.events.empty() ? queues_.erase(it) : std::next(it);
  }
  return {};
}

// A block with remaining uses is not finished: no event could be recorded yet for these uses.
void EventQueues::complete_event(Block* block, std::vector<Block*>& finished) {
  if (--block->event_count == 0 && block->uses.empty()) finished.push_back(block);
}

Result<EventId> EventQueues::acquire_event(Device& device) {
  std::vector<EventId>& idle = idle_events_[&device];
  if (idle.empty()) return device.create_event();
  const EventId event = idle.back();
  idle.pop_back();
  return event;
}

void EventQueues::recycle_event(Device& device, EventId event) {
  idle_events_[&device].push_back(event);
}

}  // namespace ashlar
