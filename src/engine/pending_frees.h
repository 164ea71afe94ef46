// SPDX-License-Identifier: Apache-2.0
//
// Blocks freed by the caller that other streams may still be using: one event per such stream, one
// queue per stream, so that a slow stream holds up only its own. Guarded by the engine's lock.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "engine/block.h"

namespace ashlar {

class PendingFrees {
 public:
  ~PendingFrees();

  // Records an event on each stream that uses the block, and takes over its `uses`. A failure
  // leaves the rest of the uses in place.
  Status add(Block* block);

  // Both append the blocks whose last event is done to `finished`, also when they fail half-way.
  // Never waits.
  Status collect_finished(std::vector<Block*>& finished);
  // Waits for every event, or for those of the wanted blocks only.
  Status wait_for_all(std::vector<Block*>& finished,
                      const std::function<bool(const Block&)>& wanted = {});

  bool empty() const { return queues_.empty(); }

 private:
  struct Waiting {
    EventId event;
    Block* block = nullptr;
  };
  using Key = std::pair<uint64_t, StreamId>;  // device index, stream
  struct Queue {
    Device* device = nullptr;
    std::deque<Waiting> waiting;
  };

  static void finish_one(Block* block, std::vector<Block*>& finished);
  Result<EventId> take_event(Device& device);
  void give_back_event(Device& device, EventId event);

  std::map<Key, Queue> queues_;                    // only non-empty ones
  std::map<Device*, std::vector<EventId>> spare_;  // recorded before, free to be recorded again
};

}  // namespace ashlar
