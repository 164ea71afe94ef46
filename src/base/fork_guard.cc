// SPDX-License-Identifier: Apache-2.0
//
// The error for the use of an inherited object.
#include "base/fork_guard.h"

#include <unistd.h>

#include "base/text.h"

namespace ashlar {

Status ForkGuard::error(std::string_view object) {
  return Status::invalid_argument(text(object, " belongs to the parent process, and process ",
                                       ::getpid(),
                                       " was forked from it: create a new one after the fork"));
}

}  // namespace ashlar
