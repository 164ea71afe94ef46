// SPDX-License-Identifier: Apache-2.0
//
// Gives forked children private copies of shared pages. Otherwise parent and child would share the
// variables: a child that exits would destroy the parent's objects.
//
// Handlers of pthread_atfork(3) make the copies. They are registered when the library is loaded, so
// that handlers that the program registers later run in the child when its pages are already
// private. Handlers that were registered earlier, such as those of an allocator in the executable,
// run while the child still shares the pages.
// Children of vfork(2), posix_spawn(3) and system(3) run no handlers and need none. Children of
// _Fork(3), or of the system calls fork and clone without the C functions, share the pages.
//
// Not thread safe: a range must not be added while another thread forks.
#pragma once

#include <cstddef>

#include "shmem/process_pages.h"

namespace ashlar::shmem {

// Returns false if the system had no memory for the registration of the handlers.
bool has_fork_handlers();

// From now on, forked children get copies of the pages at `begin`, which alias the pages at
// `source` (see `alias_pages`). `mappings` includes the mapping of `source`. If the range was added
// before, replaces its source.
void copy_in_forked_children(std::byte* begin, size_t bytes, const std::byte* source,
                             const std::vector<Mapping>& mappings);

// Returns whether the range was added.
bool is_copied_in_forked_children(const std::byte* begin, size_t bytes);

}  // namespace ashlar::shmem
