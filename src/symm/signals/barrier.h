// SPDX-License-Identifier: Apache-2.0
//
// Barriers over the group pads. After a barrier, every rank sees what all ranks wrote before it.
//
// The barriers of a channel are independent of its signals and counters, and can follow each other
// without delay. A barrier that timed out is completed by calling it again. Until then this rank
// has not passed the barrier, but the other ranks may pass it, because this rank has announced its
// arrival. The other ranks are not guaranteed to see what this rank writes between the two calls.
// REQUIRES: at most one thread of a rank is in a barrier of a channel at a time.
#pragma once

#include "ashlar/status.h"
#include "symm/signals/signals.h"

namespace ashlar::symm {

// On one machine, up to this many ranks announce their arrival to all other ranks, in one round.
// Larger groups use a dissemination barrier, which takes log2(W) rounds. The limit was measured
// with benchmarks/symm/host_ranks.cc.
inline constexpr int kAllToAllRanks = 16;

enum class BarrierKind { kAllToAll, kDissemination };

// Waits until all ranks have reached the barrier. If the ranks are on several machines, the leader
// of each machine, its lowest rank, synchronizes its ranks and communicates with the other leaders.
// Returns kInvalidArgument if the channel does not exist, kUnsupported if a pad cannot be reached,
// kTimeout with the missing ranks, or the group's failure. With one rank, only checks the
// arguments.
Status barrier(const SignalPads& pads, int channel, const Limits& limits);
// Like the function above, with the given algorithm, for ranks on one machine. REQUIRES: all ranks
// pass the same `kind`.
Status barrier(const SignalPads& pads, int channel, BarrierKind kind, const Limits& limits);

}  // namespace ashlar::symm
