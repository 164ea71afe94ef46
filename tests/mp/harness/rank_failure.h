// SPDX-License-Identifier: Apache-2.0
//
// Kills or stops a rank inside an operation and collects the errors of the other ranks.
#pragma once

#include <signal.h>

#include <functional>
#include <string>

#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {

struct RankFailure {
  int victim = 1;
  int signal = SIGKILL;  // sent to the victim inside the operation
  // This rank starts the operation only after it has detected the failure, so that no rank can
  // complete the operation.
  int late_rank = 2;
};

using GroupCall = std::function<void(SymmetricRank& own)>;

inline const GroupCall kBarrier = [](SymmetricRank& own) { own.group.barrier(3, kTestTimeout); };
inline const GroupCall kAllReduce = [](SymmetricRank& own) {
  own.handle.all_reduce(100, {}, {0, nullptr, kTestTimeout});
};

// Collective. Runs `operation` and returns the message of its PeerError, or "succeeded". Later
// calls must throw the same error; any other outcome is appended in brackets.
std::string run_with_rank_failure(const GroupCall& operation, const RankFailure& rank_failure,
                                  SymmetricRank& own);

}  // namespace ashlar::symm
