// SPDX-License-Identifier: Apache-2.0
//
// A rank that forks in the middle of its group.
#pragma once

#include <string>

#include "mp/symmetric_rank.h"

namespace ashlar::symm {

// Collective. Rank 0 forks: its child is refused everything of the group, drops all that it
// inherited, and joins a group of its own; then all ranks go on. Returns what was wrong, or
// nothing.
std::string fork_and_go_on(SymmetricRank& own);

}  // namespace ashlar::symm
