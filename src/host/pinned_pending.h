// SPDX-License-Identifier: Apache-2.0
//
// Holds pinned blocks that the caller freed while streams may still use them. There is one event
// per stream that uses a block, and one queue of events per stream, so that a slow stream delays
// only its own blocks. Only the functions named wait_… wait.
//
// No function throws. If host memory is exhausted, blocks stay pending and are retried.
//
// Thread safe. The lock is never held during a device call. `collect` and the waiting functions
// allow one caller at a time.
#pragma once

#include <list>
#include <map>
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
  // recorded yet, because the stream is capturing, the device failed or host memory is exhausted,
  // are retried by every `collect`. A use on a destroyed stream makes the block stranded. Takes
  // over the block even if it returns an error. REQUIRES: the block has uses.
  Status add(PinnedBlock* block) noexcept;

  // Appends the blocks whose work has finished to `finished`. Polls all queues even on failure, and
  // returns the first error.
  Status collect(PinnedBlockList& finished) noexcept;

  // Waits for the devices of stranded blocks, because only a wait for the whole device covers work
  // of destroyed streams. Appends the blocks that are then finished to `finished`.
  Status wait_for_stranded(PinnedBlockList& finished) noexcept;
  // Waits for the work of all pending blocks. Called before the allocator is destroyed. Retries a
  // failed wait once.
  void wait_for_all() noexcept;

  // Returns whether there is nothing for `collect` to poll. Ignores stranded blocks. Returns false
  // while another thread collects, because that thread holds the queues.
  bool empty() const;

 private:
  struct PendingEvent {
    Device* device = nullptr;
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
  // Elements move between lists, and lists between maps, without allocation.
  using Events = std::list<PendingEvent>;
  using Queues = std::map<Key, Events>;  // `queues_` contains no empty queue
  // The events of one device.
  struct DeviceEvents {
    std::vector<EventId> idle;  // for reuse; has capacity for all created events
    size_t created_count = 0;
  };
  // The uses recorded for one block, before they are queued under the lock.
  struct RecordedUses {
    Queues queues;
    Events stranded;
    Status failure;
  };
  // The state that `collect` works on without the lock.
  struct Round {
    Queues queues;
    Events completed;
    Events lost;  // will never complete
    Status failure;
  };

  static Key key_of(const DeviceStream& use);
  // Records an event for each use of the block. Removes the uses that were recorded or stranded.
  void record_uses(PinnedBlock& block, RecordedUses& recorded) ASHLAR_EXCLUDES(mutex_);
  // Records an event for one use. Returns whether the use is recorded or stranded; otherwise the
  // use must be retried.
  bool record_use(PinnedBlock& block, const DeviceStream& use, RecordedUses& recorded)
      ASHLAR_EXCLUDES(mutex_);
  // Records `event` on the stream of `use`. Returns false if the stream is capturing, because then
  // an event does not represent the stream's work.
  static Result<bool> record_event(const DeviceStream& use, EventId event);
  Result<EventId> acquire_event(Device& device) ASHLAR_EXCLUDES(mutex_);
  void recycle_event(Device& device, EventId event) ASHLAR_REQUIRES(mutex_);
  // Moves the events of `added` to the ends of the queues.
  void append_to_queues(Queues& added) ASHLAR_REQUIRES(mutex_);
  // Collects one stream's blocks from the front of its queue.
  static void collect_queue(Events& queue, Round& round, PinnedBlockList& finished);
  // Returns the round's state to the fields below.
  void put_back(Round& round) ASHLAR_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  bool is_collecting_ ASHLAR_GUARDED_BY(mutex_) = false;  // `collect` holds the queues
  Queues queues_ ASHLAR_GUARDED_BY(mutex_);
  PinnedBlockList unrecorded_ ASHLAR_GUARDED_BY(mutex_);  // blocks with uses left to record
  // Work that no event covers, because the stream was destroyed or the event became invalid. Each
  // element counts in event_count; its event is unused.
  Events stranded_ ASHLAR_GUARDED_BY(mutex_);
  std::map<Device*, DeviceEvents> events_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
