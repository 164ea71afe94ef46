// SPDX-License-Identifier: Apache-2.0
//
// Injects a signal at an exact point of an operation, without support from the library: memory that
// the operation will access is protected, and the first access raises the signal.
#pragma once

#include <cstddef>
#include <span>

namespace ashlar::symm {

enum class Access { kRead, kWrite };

// Protects the pages of `memory`. The first write, or with kRead the first access of either kind,
// removes the protection and sends `signal` to this process; after SIGCONT, the instruction is
// retried. Accesses to other memory on these pages also trigger the trap. There may be at most one
// trap per process. Exits the process on error.
void set_access_trap(std::span<std::byte> memory, Access access, int signal);

}  // namespace ashlar::symm
