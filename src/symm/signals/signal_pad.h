// SPDX-License-Identifier: Apache-2.0
//
// Pads: the words by which ranks tell each other things. Layouts, addresses and checks; what the
// words mean is in signals.h and barrier.h.
//
// Two kinds, both zero when made, and both addressed by (channel c, source s) in the pad of the
// rank that is told:
//
//   the group's own    a line of 64 bytes for each (c, s) at index W*c + s, so that no two sources
//                      ever write the same cache line
//   a user's           PyTorch's layout: one 32-bit slot at index W*c + s, and nothing else. Who
//                      sleeps on these is counted in the group's own pad.
//
// A rank writes its own line, s = itself, only for itself: there it counts its barriers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "symm/core/rank_info.h"
#include "symm/signals/pad_line.h"
#include "symm/signals/wait.h"

namespace ashlar::symm {

class RemotePads;

inline constexpr int kMaxRanks = 1 << 16;
inline constexpr int kMaxChannels = 1 << 20;

// kInvalidArgument: no such pad.
Result<size_t> pad_bytes(int world_size, int channel_count);

// Where the 32-bit slots of a kind of pad are, for every rank of a group.
class SignalSlots {
 public:
  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  int channel_count() const { return channel_count_; }
  SpinPolicy spin_policy() const { return spin_policy_; }

  // How ranks on other machines are told; null: there are none.
  RemotePads* remote() const { return remote_; }

  // kInvalidArgument with the range that is allowed.
  Status check_channel(int channel) const;
  Status check_rank(int rank) const { return RankInfo{rank_, world_size_}.check_rank(rank); }
  // kUnsupported: that rank's pad cannot be reached by pointer.
  Status check_reachable(int rank) const;
  Status check_all_reachable() const;

  // REQUIRES: all three in range, the owner reachable.
  WaitWord<uint32_t> slot(int owner, int channel, int source) const;

 private:
  friend class SignalPads;
  SignalSlots(int rank, int channel_count, std::vector<std::byte*> bases, RemotePads* remote);
  size_t index(int channel, int source) const {
    return static_cast<size_t>(world_size_) * static_cast<size_t>(channel) +
           static_cast<size_t>(source);
  }

  int rank_;
  int world_size_;
  int channel_count_;
  size_t stride_bytes_ = sizeof(PadLine);
  size_t sleepers_offset_ = offsetof(PadLine, signal_sleepers);
  int sleeper_channel_count_;
  SpinPolicy spin_policy_;
  RemotePads* remote_;
  ptrdiff_t first_unreachable_;  // the world size: none
  std::vector<std::byte*> bases_;
  std::vector<std::byte*> sleeper_bases_;
};

// The group's own pads: every rank's, as this rank sees them.
class SignalPads {
 public:
  // `bases` has one pointer for each rank, null where a rank's memory cannot be reached by pointer.
  // Each is pad_bytes() of zeros, aligned to a line. `remote` reaches those, and outlives this;
  // null: nothing does. kInvalidArgument: a wrong rank, size or alignment.
  static Result<SignalPads> over(int rank, int channel_count, std::vector<std::byte*> bases,
                                 RemotePads* remote = nullptr);

  int rank() const { return slots_.rank(); }
  int world_size() const { return slots_.world_size(); }
  int channel_count() const { return slots_.channel_count(); }
  const SignalSlots& slots() const { return slots_; }
  SpinPolicy spin_policy() const { return slots_.spin_policy(); }
  RemotePads* remote() const { return slots_.remote(); }
  // Otherwise as suits the cores that this process may use.
  void set_spin_policy(SpinPolicy spin_policy) { slots_.spin_policy_ = spin_policy; }

  // The slots of a user's pads of that many bytes. kInvalidArgument: too small for one channel, or
  // a base that is not aligned to a word.
  Result<SignalSlots> user_slots(size_t user_pad_bytes, std::vector<std::byte*> bases) const;

  // REQUIRES: all three in range, the owner reachable.
  PadLine& line(int owner, int channel, int source) const;
  WaitWord<uint64_t> counter(int owner, int channel, int source) const;
  WaitWord<uint64_t> barrier(int owner, int channel, int source) const;

 private:
  explicit SignalPads(SignalSlots slots) : slots_(std::move(slots)) {}

  SignalSlots slots_;
};

// For the message of a wait that did not end: what this rank's pad holds, a line of text for each
// channel that is not all zero, `channel` first. At most a screen.
std::string describe_pad(const SignalPads& pads, int channel);
// The same of any kind of slots: which sources' are full.
std::string describe_slots(const SignalSlots& slots, int channel);

// "0.250 s".
std::string seconds_text(std::chrono::nanoseconds duration);

}  // namespace ashlar::symm
