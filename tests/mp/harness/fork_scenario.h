// SPDX-License-Identifier: Apache-2.0
//
// A rank that forks while it is a member of a group.
#pragma once

#include <string>

#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {

// Collective. Rank 0 forks. In its child, calls on inherited objects must fail; the child then
// drops these objects and joins a new group. Then all ranks continue in the original group. Returns
// an error description, or an empty string on success.
std::string run_fork_scenario(SymmetricRank& own);

}  // namespace ashlar::symm
