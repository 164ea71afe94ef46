// SPDX-License-Identifier: Apache-2.0
//
// Forks. A child has its parent's memory and none of its threads: simulated devices stand still in
// it, and a lock that another thread held is held for good. So what was made before a fork is of no
// use after it: calls on it are refused, and its end is left out. The child makes its own.
#pragma once

namespace ashlar::python {

// How many forks lie between the process that loaded the module and this one.
int fork_count();

// Throws InvalidArgument for what was made when the count was another.
void require_made_here(int made_at);

// From here on, children begin anew.
void prepare_for_forks();

}  // namespace ashlar::python
