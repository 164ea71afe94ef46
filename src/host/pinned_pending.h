// SPDX-License-Identifier: Apache-2.0
//
// Pinned blocks freed by the caller that streams may still be using: one event per such stream, and
// one queue per stream, so that a slow stream holds up only its own blocks. Never waits, except in
// the functions that say so.
//
// Thread safe. Its lock is never held across a device call; `collect` and the functions that wait
// are for one caller at a time.
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
  // Destroys its events. REQUIRES: nobody needs the blocks that are still pending.
  ~PinnedPending();
  PinnedPending(const PinnedPending&) = delete;
  PinnedPending& operator=(const PinnedPending&) = delete;

  // Takes over a block, and records an event in each stream of its `uses`. What cannot be recorded
  // yet, since the stream is capturing or the device failed, is tried again by every `collect`; a
  // stream that does not exist any more leaves the block stranded. A failure is told, and the block
  // is taken over all the same. REQUIRES: the block has uses.
  Status add(PinnedBlock* block);

  // Appends the blocks whose work is done to `finished`, also when it fails half-way: the first
  // failure is told, and the queues of other streams are looked at nevertheless.
  Status collect(std::vector<PinnedBlock*>& finished);

  // Waits for the devices of stranded blocks: only they know about work in a stream that is gone.
  Status wait_for_stranded(std::vector<PinnedBlock*>& finished);
  // Waits for everything. For the end of the allocator: what fails is tried twice, then given up.
  void wait_for_all();

  // Whether `collect` could ever find anything; stranded blocks do not count. False as well while
  // somebody is collecting: what is left of it comes back only then.
  bool empty() const;

 private:
  struct Waiting {
    EventId event;
    PinnedBlock* block = nullptr;
  };
  // A device by itself is no order that is the same in every run; its index comes first.
  struct Key {
    DeviceIndex index;
    Device* device = nullptr;
    StreamId stream;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Queues = std::map<Key, std::deque<Waiting>>;  // no empty ones
  struct Stranded {
    Device* device = nullptr;
    PinnedBlock* block = nullptr;
  };
  // What recording the uses of one block has come to, before it is put in place under the lock.
  struct Recorded {
    std::vector<std::pair<Key, EventId>> events;
    std::vector<Device*> stranded_on;
    Status failure;
  };
  // What `collect` has taken out to work on without the lock.
  struct Round {
    Queues queues;
    std::vector<PinnedBlock*> unrecorded;
    std::vector<std::pair<Device*, EventId>> spare;
    std::vector<Stranded> stranded;
    Status failure;
  };

  static Key key_of(const StreamUse& use);
  // Uses that are recorded or stranded leave the block's list.
  Recorded record_uses(PinnedBlock& block);
  // False: the stream is capturing, so that an event in it would stand for no work.
  Result<bool> record_use(const StreamUse& use, EventId event);
  Result<EventId> take_event(Device& device) ASHLAR_EXCLUDES(mutex_);
  void put_in_place(PinnedBlock* block, const Recorded& recorded) ASHLAR_REQUIRES(mutex_);
  // Collects one stream's blocks from the front of its queue.
  static void collect_queue(const Key& key, std::deque<Waiting>& queue, Round& round,
                            std::vector<PinnedBlock*>& finished);
  void put_back(Round& round) ASHLAR_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  bool in_round_ ASHLAR_GUARDED_BY(mutex_) = false;  // `collect` has taken out what there was
  Queues queues_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<PinnedBlock*> unrecorded_ ASHLAR_GUARDED_BY(mutex_);  // have uses left
  std::vector<Stranded> stranded_ ASHLAR_GUARDED_BY(mutex_);        // each stands for an event
  std::map<Device*, std::vector<EventId>> spare_ ASHLAR_GUARDED_BY(mutex_);  // to be used again
};

}  // namespace ashlar
