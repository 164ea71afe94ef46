// SPDX-License-Identifier: Apache-2.0
//
// Barriers over the group's own pads. What ranks wrote before one is seen by all after it.
//
// Each channel has barriers of its own, which have nothing to do with its signals and counters.
// They can follow each other at once. One that timed out is finished by calling it again; until
// then its rank has not passed it, but the others may: they have been told that it came, and what
// it writes between the two calls they need not see. One thread of a rank at a time on a channel.
#pragma once

#include "ashlar/status.h"
#include "symm/signals/signals.h"

namespace ashlar::symm {

// Up to so many ranks, each tells each: one step of waiting. Beyond, log2(W) steps and as many
// words. benchmarks/symm/host_ranks.cc measures both.
inline constexpr int kAllToAllRanks = 16;

enum class BarrierKind { kAllToAll, kDissemination };

// Where ranks are on several machines, the lowest of each speaks for it.
// kInvalidArgument: no such channel. kUnsupported: a pad that cannot be reached. kTimeout: names
// who has not come. The group's failure: its reason. With one rank, nothing but the checks.
Status barrier(const SignalPads& pads, int channel, const Limits& limits);
// All ranks must use the same kind.
Status barrier(const SignalPads& pads, int channel, BarrierKind kind, const Limits& limits);

}  // namespace ashlar::symm
