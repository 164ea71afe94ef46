// SPDX-License-Identifier: Apache-2.0
//
// Lists the mappings of this process, maps shared pages a second time, moves mappings, and copies
// pages. Thread safe, except that no other thread may use pages that are being replaced.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::shmem {

size_t page_bytes();

// A line of /proc/self/maps.
struct Mapping {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  std::string permissions;  // such as "rw-p"
  uint64_t file_offset = 0;
  dev_t device = 0;  // with `inode`, identifies the mapped file
  ino_t inode = 0;
};
// Returns all mappings, sorted by address; nothing if the proc file system is not mounted.
std::vector<Mapping> read_mappings();

// Maps the pages of the shared mapping at `source` a second time at `target`, in place of what is
// mapped there. Returns false, having changed nothing, if the system refuses. Ends the process if
// the system refuses after it has unmapped `target`. REQUIRES: all arguments are multiples of the
// page size.
bool alias_pages(const std::byte* source, size_t bytes, std::byte* target);

// Moves the mapping at `from` to `target`, in place of what is mapped there. Fails like
// `alias_pages`, and has the same requirements.
bool move_pages(std::byte* from, size_t bytes, std::byte* target);

// Copies the words that are not zero to zeroed memory at `to`, whose zero pages therefore use no
// memory. Reads each word once.
void copy_nonzero_words(const std::byte* from, size_t bytes, std::byte* to);

// Prints the message and exits with status 1, without running exit handlers.
[[noreturn]] void end_process(std::string_view message);

// Blocks all signals of the calling thread. Returns the signals that were blocked before.
sigset_t block_signals();
void restore_signals(const sigset_t& before);

}  // namespace ashlar::shmem
