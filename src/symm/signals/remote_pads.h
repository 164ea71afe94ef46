// SPDX-License-Identifier: Apache-2.0
//
// `RemotePads`: writes to the signal pads of ranks on other machines. `PolledWords`: waits on local
// memory that remote ranks change.
//
// Slots, counters and barriers are written by atomic additions; each word has a single remote
// writer. Additions commute, and an addition that could not be sent did not take place, so a call
// that timed out can be repeated safely. Thread safe, except that barriers require one thread of a
// rank per channel at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "symm/core/rank_info.h"
#include "symm/core/shared_words.h"
#include "symm/core/timed_mutex.h"
#include "symm/signals/signal_pad.h"
#include "symm/transports/remote_memory.h"

namespace ashlar::symm {

class RemotePads {
 public:
  // `pads` is the memory of the group pads. REQUIRES: `pads` outlives this object.
  RemotePads(const RemoteMemory& pads, RankInfo rank_info, int channel_count)
      : pads_(pads),
        rank_info_(rank_info),
        announced_(static_cast<size_t>(rank_info.world_size) * static_cast<size_t>(channel_count)) {
  }

  Transport& transport() const { return pads_.remotes().transport(); }
  // REQUIRES, for all functions below: ranks and channels are in range.
  bool contains(int rank) const { return pads_.contains(rank); }
  int leader_of(int rank) const { return pads_.remotes().leader_of(rank); }

  // REQUIRES, for all functions below: contains(to), contains(owner) or contains(leader).

  // Adds to counter (channel, this rank). After kTimeout nothing has been added.
  Status add_to_counter(int to, int channel, uint64_t amount, Deadline deadline);
  // Fills slot (channel, this rank). Returns false if the slot is full. After kTimeout the slot
  // has not been filled.
  Result<bool> try_put(int to, int channel, Deadline deadline) ASHLAR_EXCLUDES(slot_mutex_);
  // Announces that this rank has reached a barrier. Idempotent.
  Status announce(int to, int channel, uint64_t number, Deadline deadline);
  // Writes the signature fields of `line`. They are visible to the receiver after `quiet`.
  Status put_signature(int to, int channel, const PadLine& line, Deadline deadline);
  // Waits until all earlier writes are visible to their receivers.
  Status quiet(Deadline deadline) { return pads_.quiet(deadline); }
  // Reads the number of the last barrier that `source` announced to `owner`.
  Result<uint64_t> fetch_barrier(int owner, int channel, int source, Deadline deadline);
  // Reads the low half of the number of the last barrier that a leader has reached.
  Result<uint32_t> fetch_leader_arrival(int leader, int channel, Deadline deadline);

 private:
  size_t index(int channel, int source) const {
    return static_cast<size_t>(rank_info_.world_size) * static_cast<size_t>(channel) +
           static_cast<size_t>(source);
  }
  uint64_t line(int channel, int source) const { return sizeof(PadLine) * index(channel, source); }
  uint64_t own_line(int channel) const { return line(channel, rank_info_.rank); }

  const RemoteMemory& pads_;
  const RankInfo rank_info_;
  std::vector<uint64_t> announced_;  // the last barrier announced, indexed by channel and rank
  TimedMutex slot_mutex_;            // held from reading a slot to filling it
};

inline constexpr std::chrono::nanoseconds kMaxPolledSleep = std::chrono::microseconds(500);

// Local words that remote ranks change through the transport. The transport does not wake sleepers,
// so waits make transport progress themselves and sleep only briefly.
class PolledWords : public SharedWords {
 public:
  explicit PolledWords(Transport& transport) : transport_(transport) {}

  void pause() const { transport_.progress(); }
  bool yield() const {
    transport_.progress();
    return SharedWords::yield();
  }
  void sleep(const uint32_t* word, uint32_t seen, std::chrono::nanoseconds at_most) const {
    transport_.progress();
    SharedWords::sleep(word, seen, std::min(at_most, kMaxPolledSleep));
  }
  // Orders earlier writes by the transport's thread before later reads by this thread.
  void synchronize() const { transport_.progress(); }

 private:
  Transport& transport_;
};

}  // namespace ashlar::symm
