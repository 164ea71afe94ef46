// SPDX-License-Identifier: Apache-2.0
//
// Signal pads: the words through which ranks signal each other. Layout, addressing and checks; the
// meaning of the words is defined in signals.h and barrier.h.
//
// There are two kinds of pads, both initially zero. Both are addressed by (channel c, source s) in
// the pad of the receiving rank:
//
//   group pad    a line of 64 bytes per (c, s) at index W*c + s, so that no two sources write to
//                the same cache line
//   user's pad   PyTorch's layout: one 32-bit slot at index W*c + s and nothing else. Its sleepers
//                are counted in the group pad.
//
// Only the rank itself writes its own line (s = its rank), where it counts its barriers.
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

// Returns the size of a group pad, or kInvalidArgument if an argument is out of range.
Result<size_t> pad_bytes(int world_size, int channel_count);

// The 32-bit signal slots of one kind of pad, for all ranks of a group.
class SignalSlots {
 public:
  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  int channel_count() const { return channel_count_; }
  SpinPolicy spin_policy() const { return spin_policy_; }

  // Access to the pads of ranks on other machines. Null if there are none, and for users' pads.
  RemotePads* remote() const { return remote_; }

  // Returns kInvalidArgument if the channel is out of range.
  Status check_channel(int channel) const;
  Status check_rank(int rank) const { return RankInfo{rank_, world_size_}.check_rank(rank); }
  // Returns kUnsupported if the pad of the rank is not mapped.
  Status check_reachable(int rank) const;
  Status check_all_reachable() const;

  // REQUIRES: the arguments are in range, and the owner is reachable.
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
  ptrdiff_t first_unreachable_;  // the first rank whose pad is not mapped; world_size_ if none
  std::vector<std::byte*> bases_;
  std::vector<std::byte*> sleeper_bases_;
};

// The group pads of all ranks, as mapped by this rank.
class SignalPads {
 public:
  // `bases` has one pointer per rank to pad_bytes() zeroed bytes, aligned to a line; null for ranks
  // on other machines, which `remote` reaches. REQUIRES: `remote` is null or outlives this object.
  // Returns kInvalidArgument if a rank, size or alignment is invalid.
  static Result<SignalPads> make(int rank, int channel_count, std::vector<std::byte*> bases,
                                 RemotePads* remote = nullptr);

  int rank() const { return slots_.rank(); }
  int world_size() const { return slots_.world_size(); }
  int channel_count() const { return slots_.channel_count(); }
  const SignalSlots& slots() const { return slots_; }
  SpinPolicy spin_policy() const { return slots_.spin_policy(); }
  RemotePads* remote() const { return slots_.remote(); }
  // Replaces the default policy, which depends on the cores that this process may run on.
  void set_spin_policy(SpinPolicy spin_policy) { slots_.spin_policy_ = spin_policy; }

  // The slots of the users' pads. Returns kInvalidArgument if there is not one base per rank, this
  // rank's base is null, a base is not aligned to a word, or the pads are too small for one
  // channel.
  Result<SignalSlots> user_slots(size_t user_pad_bytes, std::vector<std::byte*> bases) const;

  // The next three functions require that the arguments are in range and the owner is reachable.
  PadLine& line(int owner, int channel, int source) const;
  WaitWord<uint64_t> counter(int owner, int channel, int source) const;
  WaitWord<uint64_t> barrier(int owner, int channel, int source) const;

 private:
  explicit SignalPads(SignalSlots slots) : slots_(std::move(slots)) {}

  SignalSlots slots_;
};

// Describes the contents of this rank's pad, for timeout messages. `channel` comes first, followed
// by the other channels that are not all zero, up to a limit.
std::string describe_pad(const SignalPads& pads, int channel);
// Lists the sources whose slots are full, for timeout messages.
std::string describe_slots(const SignalSlots& slots, int channel);

// Formats a duration as "0.250 s".
std::string seconds_text(std::chrono::nanoseconds duration);

}  // namespace ashlar::symm
