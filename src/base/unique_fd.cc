// SPDX-License-Identifier: Apache-2.0
//
// Closing file descriptors.
#include "ashlar/unique_fd.h"

#include <unistd.h>

namespace ashlar {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace ashlar
