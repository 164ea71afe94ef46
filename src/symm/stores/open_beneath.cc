// SPDX-License-Identifier: Apache-2.0
//
// Implemented with openat2(2) or openat(2).
#include "symm/stores/open_beneath.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#if defined(SYS_openat2) && __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#define ASHLAR_HAS_OPENAT2 1
#else
#define ASHLAR_HAS_OPENAT2 0
#endif

namespace ashlar::symm {
namespace {

mode_t permissions_of(OpenMode mode) { return (mode.flags & O_CREAT) != 0 ? mode.permissions : 0; }

// Opens one component of a path. openat(2) reports a link that should be a directory as ENOTDIR.
UniqueFd open_component(int folder_fd, const std::string& name, OpenMode mode) {
  UniqueFd opened(
      ::openat(folder_fd, name.c_str(), mode.flags | O_NOFOLLOW | O_CLOEXEC, permissions_of(mode)));
  if (opened.valid() || errno != ENOTDIR) return opened;
  struct stat found {};
  const bool is_link = ::fstatat(folder_fd, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISLNK(found.st_mode);
  errno = is_link ? ELOOP : ENOTDIR;
  return opened;
}

}  // namespace

UniqueFd open_beneath(int folder_fd, const std::string& path, OpenMode mode) {
#if ASHLAR_HAS_OPENAT2
  open_how how{};
  how.flags = static_cast<uint64_t>(mode.flags | O_CLOEXEC);
  how.mode = permissions_of(mode);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  UniqueFd opened(
      static_cast<int>(::syscall(SYS_openat2, folder_fd, path.c_str(), &how, sizeof(how))));
  // Kernels before 5.6 and most filters return ENOSYS; older container runtimes return EPERM. EPERM
  // may also concern the file, in which case the second attempt fails with EPERM again.
  if (opened.valid() || (errno != ENOSYS && errno != EPERM)) return opened;
#endif
  return open_by_component(folder_fd, path, mode);
}

UniqueFd open_by_component(int folder_fd, const std::string& path, OpenMode mode) {
  UniqueFd folder;
  std::string_view left = path;
  if (left.starts_with('/')) {
    errno = EXDEV;
    return {};
  }
  for (;;) {
    const size_t slash = left.find('/');
    const std::string name(left.substr(0, slash));
    if (name == "..") {
      errno = EXDEV;
      return {};
    }
    const int parent_fd = folder.valid() ? folder.get() : folder_fd;
    if (slash == std::string_view::npos) return open_component(parent_fd, name, mode);
    UniqueFd next = open_component(parent_fd, name, {O_PATH | O_DIRECTORY});
    if (!next.valid()) return next;
    folder = std::move(next);
    left.remove_prefix(slash + 1);
  }
}

}  // namespace ashlar::symm
