// SPDX-License-Identifier: Apache-2.0
//
// Recording and collecting events.
#include "engine/pending_frees.h"

namespace ashlar {

PendingFrees::~PendingFrees() {
  for (auto& [key, queue] : queues_) {
    for (const Waiting& waiting : queue.waiting) {
      (void)queue.device->destroy_event(waiting.event).ok();
    }
  }
  for (auto& [device, events] : spare_) {
    for (EventId event : events) (void)device->destroy_event(event).ok();
  }
}

Status PendingFrees::add(Block* block) {
  while (!block->uses.empty()) {
    const StreamUse use = block->uses.back();
    Result<EventId> event = take_event(*use.device);
    if (!event.ok()) return event.status();
    if (Status recorded = use.device->record_event(*event, use.stream); !recorded.ok()) {
      give_back_event(*use.device, *event);
      return recorded;
    }
    Queue& queue = queues_[{use.device->properties().index.value(), use.stream}];
    queue.device = use.device;
    queue.waiting.push_back({*event, block});
    ++block->event_count;
    block->uses.pop_back();
  }
  return {};
}

Status PendingFrees::collect_finished(std::vector<Block*>& finished) {
  for (auto it = queues_.begin(); it != queues_.end();) {
    Queue& queue = it->second;
    while (!queue.waiting.empty()) {
      const Waiting first = queue.waiting.front();
      Result<bool> done = queue.device->is_done(first.event);
      if (!done.ok()) return done.status();
      if (!*done) break;
      queue.waiting.pop_front();
      give_back_event(*queue.device, first.event);
      finish_one(first.block, finished);
    }
    it = queue.waiting.empty() ? queues_.erase(it) : std::next(it);
  }
  return {};
}

Status PendingFrees::wait_for_all(std::vector<Block*>& finished,
                                  const std::function<bool(const Block&)>& wanted) {
  for (auto it = queues_.begin(); it != queues_.end();) {
    Queue& queue = it->second;
    std::deque<Waiting> left;
    while (!queue.waiting.empty()) {
      const Waiting first = queue.waiting.front();
      if (wanted && !wanted(*first.block)) {
        left.push_back(first);
        queue.waiting.pop_front();
        continue;
      }
      if (Status done = queue.device->synchronize_event(first.event); !done.ok()) {
        queue.waiting.insert(queue.waiting.begin(), left.begin(), left.end());
        return done;
      }
      queue.waiting.pop_front();
      give_back_event(*queue.device, first.event);
      finish_one(first.block, finished);
    }
    queue.waiting = std::move(left);
    it = queue.waiting.empty() ? queues_.erase(it) : std::next(it);
  }
  return {};
}

// A block with uses left still waits for events that could not be recorded yet.
void PendingFrees::finish_one(Block* block, std::vector<Block*>& finished) {
  if (--block->event_count == 0 && block->uses.empty()) finished.push_back(block);
}

Result<EventId> PendingFrees::take_event(Device& device) {
  std::vector<EventId>& spare = spare_[&device];
  if (spare.empty()) return device.create_event();
  const EventId event = spare.back();
  spare.pop_back();
  return event;
}

void PendingFrees::give_back_event(Device& device, EventId event) {
  spare_[&device].push_back(event);
}

}  // namespace ashlar
