// SPDX-License-Identifier: Apache-2.0
//
// How this rank tells things to ranks on other machines: changes to the lines of their pads
// (pad.h), which they look at in their own memory. And the memory that they wait in meanwhile: one
// that lets the transport work.
//
// Everything is told by additions, which no network does twice or out of order with anything that
// matters: a word has one rank that adds to it. Thread safe, but for barriers: one thread of a rank
// at a time on a channel.
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
  // `pads`: the group's own, from the beginning of each; outlives this.
  RemotePads(const RemoteMemory& pads, RankInfo rank_info, int channel_count)
      : pads_(pads),
        rank_info_(rank_info),
        announced_(static_cast<size_t>(rank_info.world_size) * static_cast<size_t>(channel_count)) {
  }

  Transport& transport() const { return pads_.remotes().transport(); }
  // REQUIRES, here and below: ranks and channels in range.
  bool contains(int rank) const { return pads_.contains(rank); }
  int leader_of(int rank) const { return pads_.remotes().leader_of(rank); }

  // --- REQUIRES: contains(to)
  // Adds to counter (channel, this rank). kTimeout: it was not.
  Status add_to_counter(int to, int channel, uint64_t amount, Deadline deadline);
  // Fills slot (channel, this rank). False: it is full. kTimeout: it was not filled.
  Result<bool> try_put(int to, int channel, Deadline deadline) ASHLAR_EXCLUDES(slot_mutex_);
  // Says that this rank has come to that barrier. Any number of times.
  Status announce(int to, int channel, uint64_t number, Deadline deadline);
  // The notes of `line`, there after `quiet`.
  Status put_notes(int to, int channel, const PadLine& line, Deadline deadline);
  Status quiet(Deadline deadline) { return pads_.quiet(deadline); }
  // The last barrier that `source` announced to that rank.
  Result<uint64_t> fetch_barrier(int owner, int channel, int source, Deadline deadline);
  // The lower half of the last barrier that a leader came to.
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
  std::vector<uint64_t> announced_;  // by channel and rank: the last barrier that was announced
  TimedMutex slot_mutex_;            // from looking at a slot to filling it
};

inline constexpr std::chrono::nanoseconds kLongestServedSleep = std::chrono::microseconds(500);

// Own memory that others change through the transport, which wakes nobody: whoever waits here lets
// it work, and looks often.
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
    SharedWords::sleep(word, seen, std::min(at_most, kLongestServedSleep));
  }
  // What the transport's own thread wrote before is ordered before what this one reads next.
  void catch_up() const { transport_.progress(); }

 private:
  Transport& transport_;
};

}  // namespace ashlar::symm
