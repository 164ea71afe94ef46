// SPDX-License-Identifier: Apache-2.0
//
// A rank that dies, or stands still, inside of an operation, and what the others say of it.
#pragma once

#include <signal.h>

#include <functional>
#include <string>

#include "mp/symmetric_rank.h"

namespace ashlar::symm {

struct Loss {
  int victim = 1;
  int signal = SIGKILL;  // that it gets inside of the operation
  // Comes to the operation only when the others know, so that nobody gets through.
  int latecomer = 2;
};

using GroupCall = std::function<void(SymmetricRank& own)>;

inline const GroupCall kBarrier = [](SymmetricRank& own) { own.group.barrier(3, kPatience); };
inline const GroupCall kAllReduce = [](SymmetricRank& own) {
  own.handle.all_reduce(100, {}, {0, nullptr, kPatience});
};

// Does `act`, which all ranks do, and returns the PeerError that it threw, and that every later
// call throws again. In brackets: what was wrong with that.
std::string lose_rank_in(const GroupCall& act, const Loss& loss, SymmetricRank& own);

}  // namespace ashlar::symm
