// SPDX-License-Identifier: Apache-2.0
//
// The lock of a file store: an flock(2) on a file in the store's folder. The kernel releases the
// lock when the process that holds it exits or crashes.
#pragma once

#include <string>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar::symm {

// Holds the lock until it is destroyed. Threads of one process exclude each other too, because each
// object has a descriptor of its own.
class FileLock {
 public:
  // Waits for the lock of the store in the folder `folder_fd`. Creates the lock file if necessary,
  // accessible only to this user: otherwise, other users could hold the lock forever. `store_name`
  // is used in error messages. The message of kTimeout names the process that holds the lock, if
  // the kernel reports it.
  static Result<FileLock> acquire(int folder_fd, const std::string& store_name, Deadline deadline);

  FileLock(FileLock&&) = default;
  FileLock& operator=(FileLock&&) = delete;
  // Unlocks explicitly rather than by closing the descriptor: a child forked in the meantime has a
  // copy of the descriptor, which would keep the file locked.
  ~FileLock();

 private:
  explicit FileLock(UniqueFd locked) : file_(std::move(locked)) {}

  UniqueFd file_;  // invalid after a move
};

}  // namespace ashlar::symm
