// SPDX-License-Identifier: Apache-2.0
//
// Fork handling. A child process inherits its parent's memory, but only the thread that called
// fork: simulated devices do not run, and locks held by other threads stay locked. Objects created
// before the fork are therefore rejected in the child and never destroyed there; the child creates
// new objects.
#pragma once

namespace ashlar::python {

// Returns the number of forks between the process that loaded the module and this process.
int fork_count();

// Throws InvalidArgument if `created_after_forks` differs from fork_count().
void require_same_process(int created_after_forks);

// Installs the fork handlers.
void install_fork_handlers();

}  // namespace ashlar::python
