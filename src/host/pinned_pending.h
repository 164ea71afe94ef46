// SPDX-License-Identifier: Apache-2.0
//
// Holds pinned blocks that the caller freed while streams may still use them. There is one event
// per stream that uses a block, and one queue of events per stream, so that a slow stream delays
// only its own blocks. Only the functions named wait_… wait.
//
// Thread safe. The lock is never held during a device call. `collect` and the waiting functions
// allow one caller at a time.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "host/pinned_block.h"

namespace ashlar {

class PinnedPending {
 public:
  PinnedPending() = default;
  // Destroys all events. REQUIRES: the remaining pending blocks are no longer needed.
  ~PinnedPending();
  PinnedPending(const PinnedPending&) = delete;
  PinnedPending& operator=(const PinnedPending&) = delete;

  // Takes over a block and records an event on each stream in its `uses`. Uses that cannot be
  // recorded yet, because the stream is capturing or the device failed, are retried by every
  // `collect`. A use on a destroyed stream makes the block stranded. Takes over the block even if
  // it returns an error. REQUIRES: the block has uses.
  Status add(PinnedBlock* block);

  // Appends the blocks whose work has finished to `finished`. Polls all queues even on failure, and
  // returns the first error.
  Status collect(std::vector<PinnedBlock*>& finished);

  // Waits for the devices of stranded blocks, because only a wait for the whole device covers work
  // of destroyed streams. Appends the blocks that are then finished to `finished`.
  Status wait_for_stranded(std::vector<PinnedBlock*>& finished);
  // Waits for the work of all pending blocks. Called before the allocator is destroyed. Retries a
  // failed wait once.
  void wait_for_all();

  // Returns whether there is nothing for `collect` to poll. Ignores stranded blocks. Returns false
  // while another thread collects, because that thread holds the queues.
  bool empty() const;

 private:
  struct PendingEvent {
    EventId event;
    PinnedBlock* block = nullptr;
  };
  // Identifies a queue. Keys are ordered by index first, because pointers are not ordered
  // reproducibly.
  struct Key {
    DeviceIndex index;
    Device* device = nullptr;
    StreamId stream;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Queues = std::map<Key, std::deque<PendingEvent>>;  // never contains an empty queue
  // A block with work on `device` that no event covers, because the stream was destroyed or the
  // event became invalid.
  struct Stranded {
    Device* device = nullptr;
    PinnedBlock* block = nullptr;
  };
  // The events recorded for one block, before they are queued under the lock.
  struct RecordedUses {
    std::vector<std::pair<Key, EventId>> events;
    std::vector<Device*> stranded_on;
    Status failure;
  };
  // The state that `collect` works on without the lock.
  struct Round {
    Queues queues;
    std::vector<PinnedBlock*> unrecorded;
    std::vector<std::pair<Device*, EventId>> idle_events;
    std::vector<Stranded> stranded;
    Status failure;
  };

  static Key key_of(const DeviceStream& use);
  // Records an event for each use of the block. Removes the uses that were recorded or stranded.
  RecordedUses record_uses(PinnedBlock& block);
  // Records `event` on the stream of `use`. Returns false if the stream is capturing, because then
  // an event does not represent the stream's work.
  Result<bool> record_use(const DeviceStream& use, EventId event);
  Result<EventId> acquire_event(Device& device) ASHLAR_EXCLUDES(mutex_);
  void enqueue(PinnedBlock* block, const RecordedUses& recorded) ASHLAR_REQUIRES(mutex_);
  // Collects one stream's blocks from the front of its queue.
  static void collect_queue(const Key& key, std::deque<PendingEvent>& queue, Round& round,
                            std::vector<PinnedBlock*>& finished);
  // Returns the round's state to the fields below.
  void put_back(Round& round) ASHLAR_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  bool is_collecting_ ASHLAR_GUARDED_BY(mutex_) = false;  // `collect` holds the queues
  Queues queues_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<PinnedBlock*> unrecorded_
      ASHLAR_GUARDED_BY(mutex_);                              // blocks with uses left to record
  std::vector<Stranded> stranded_ ASHLAR_GUARDED_BY(mutex_);  // each counts as one event of a block
  std::map<Device*, std::vector<EventId>> idle_events_
      ASHLAR_GUARDED_BY(mutex_);  // events that can be reused
};

}  // namespace ashlar
