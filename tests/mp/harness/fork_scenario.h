// SPDX-License-Identifier: Apache-2.0
//
// A rank that forks while it is a member of a group.
#pragma once

#include <string>

#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {

// Collective. Rank 0 forks. In its child, all calls on inherited objects must fail, the inherited
// objects are dropped, and a new group is joined. Then all ranks continue in the original group.
// Returns an error description, or an empty string on success.
std::string run_fork_scenario(SymmetricRank& own);

}  // namespace ashlar::symm
