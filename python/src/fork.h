// SPDX-License-Identifier: Apache-2.0
//
// Fork handling. A child inherits its parent's memory but none of its threads: simulated devices do
// not run, and locks held by other threads stay locked. Therefore objects created before the fork
// are rejected in the child and never destroyed there; the child creates its own.
#pragma once

namespace ashlar::python {

// Number of forks between the process that loaded the module and this one.
int fork_count();

// Throws InvalidArgument if `created_after_forks` differs from fork_count().
void require_same_process(int created_after_forks);

// Installs the fork handlers.
void prepare_for_forks();

}  // namespace ashlar::python
