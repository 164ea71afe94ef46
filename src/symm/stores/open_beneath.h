// SPDX-License-Identifier: Apache-2.0
//
// Opens files below a directory without following symbolic links, so that another user who can
// create files in the directory cannot redirect a read or a write to a file elsewhere. Thread safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "ashlar/unique_fd.h"

namespace ashlar::symm {

struct OpenMode {
  int flags = 0;           // flags of open(2); O_CLOEXEC is added
  mode_t permissions = 0;  // permissions of a new file; used only with O_CREAT
};

// Opens the file `path`, which is relative to the directory `folder_fd`. Returns an invalid
// descriptor on failure, with the reason in errno: ELOOP if any component of the path is a symbolic
// link, and EXDEV if the path leaves the directory. Uses openat2(2), and `open_by_component` if the
// kernel or a seccomp filter does not provide that call.
UniqueFd open_beneath(int folder_fd, const std::string& path, OpenMode mode);

// Does the same with one openat(2) per component of the path. Also rejects a component ".." that
// does not leave the directory.
UniqueFd open_by_component(int folder_fd, const std::string& path, OpenMode mode);

}  // namespace ashlar::symm
