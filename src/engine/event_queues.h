// SPDX-License-Identifier: Apache-2.0
//
// Events that guard pending frees: one event per stream that may still use a freed block, one queue
// per stream, so that a slow stream delays only its own blocks. Guarded by the engine's lock.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "engine/block.h"

namespace ashlar {

class EventQueues {
 public:
  ~EventQueues();

  // Records an event on each stream in `block->uses`, and removes the stream from that list. On
  // failure, and if host memory is exhausted, the remaining streams stay in the list.
  Status add(Block* block);

  // Appends blocks whose last event has completed to `finished`, even if the call fails partway or
  // throws std::bad_alloc. Never waits.
  Status collect_finished(std::vector<Block*>& finished);
  // Like collect_finished, but waits: for every event, or only for the events of blocks that
  // `wanted` accepts.
  Status wait_for_all(std::vector<Block*>& finished,
                      const std::function<bool(const Block&)>& wanted = {});

  bool empty() const { return queues_.empty(); }

 private:
  struct PendingEvent {
    EventId event;
    Block* block = nullptr;
  };
  using Key = std::pair<uint64_t, StreamId>;  // device index, stream
  struct Queue {
    Device* device = nullptr;
    std::deque<PendingEvent> events;
  };

  // The events of one device.
  struct DeviceEvents {
    std::vector<EventId> idle;  // events for reuse; has capacity for all created events
    size_t created_count = 0;
  };

  Status record_event(Block* block, const DeviceStream& use);
  static void complete_event(Block* block, std::vector<Block*>& finished);
  Status wait_for_queue(Queue& queue, std::vector<Block*>& finished,
                        const std::function<bool(const Block&)>& wanted);
  Result<EventId> acquire_event(Device& device);
  void recycle_event(Device& device, EventId event);

  std::map<Key, Queue> queues_;  // never contains an empty queue
  std::map<Device*, DeviceEvents> events_;
};

}  // namespace ashlar
