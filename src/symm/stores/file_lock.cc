// SPDX-License-Identifier: Apache-2.0
//
// Polls the lock, because flock(2) has no deadline.
#include "symm/stores/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/text.h"
#include "symm/stores/open_beneath.h"

namespace ashlar::symm {
namespace {

constexpr const char* kLockName = "lock";
constexpr std::chrono::microseconds kMinLockPollInterval{20};
constexpr std::chrono::milliseconds kMaxLockPollInterval{2};
constexpr mode_t kAccessOfOthers = S_IRWXG | S_IRWXO;

Status lock_error(std::string_view call, const std::string& store_name) {
  const int code = errno;
  return Status::device_fault(
      call, code, text("the lock file of the store ", store_name, ": ", std::strerror(code)));
}

Status open_error(int folder_fd, const std::string& store_name) {
  const Status error = lock_error("open", store_name);
  struct stat found {};
  const bool belongs_to_other = error.code() == EACCES &&
                                ::fstatat(folder_fd, kLockName, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
                                found.st_uid != ::geteuid();
  if (!belongs_to_other) return error;
  return Status::invalid_argument(text("the lock file of the store ", store_name,
                                       " belongs to user ", found.st_uid, ", this process to user ",
                                       ::geteuid(),
                                       ": all processes that use a store must run as one user"));
}

// Returns the process that holds the lock of the file: "process 12 (name)". Returns "a process that
// is not visible here" if the kernel does not list it, because the process is on another machine or
// in another pid namespace. Each line of /proc/locks is
// "1: FLOCK ADVISORY WRITE 12 08:01:345 0 EOF", with the pid, the hexadecimal device numbers and
// the decimal inode of the file.
std::string lock_holder(int file) {
  struct stat found {};
  if (::fstat(file, &found) == 0) {
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);) {
      std::istringstream words(line);
      std::string number;
      std::string kind;
      std::string skipped;
      pid_t pid = 0;
      unsigned device_major = 0;
      unsigned device_minor = 0;
      uint64_t inode = 0;
      char colon = 0;
      words >> number >> kind >> skipped >> skipped >> pid >> std::hex >> device_major >> colon >>
          device_minor >> colon >> std::dec >> inode;
      if (!words || kind != "FLOCK" || inode != found.st_ino ||
          device_major != major(found.st_dev) || device_minor != minor(found.st_dev)) {
        continue;
      }
      std::string name = "unknown";
      std::getline(std::ifstream(text("/proc/", pid, "/comm")), name);
      return text("process ", pid, " (", name, ")");
    }
  }
  return "a process that is not visible here";
}

}  // namespace

Result<FileLock> FileLock::acquire(int folder_fd, const std::string& store_name,
                                   Deadline deadline) {
  UniqueFd file = open_beneath(folder_fd, kLockName, {O_RDWR | O_CREAT, S_IRUSR | S_IWUSR});
  if (!file.valid()) return open_error(folder_fd, store_name);
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return lock_error("fstat", store_name);
  if (found.st_uid == ::geteuid() && (found.st_mode & kAccessOfOthers) != 0 &&
      ::fchmod(file.get(), S_IRUSR | S_IWUSR) != 0) {
    return lock_error("fchmod", store_name);
  }
  std::chrono::nanoseconds pause = kMinLockPollInterval;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return lock_error("flock", store_name);
    if (deadline.has_passed()) {
      return Status::timeout(text("the store ", store_name, " was locked until the deadline by ",
                                  lock_holder(file.get()), ": check whether it is suspended"));
    }
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kMaxLockPollInterval);
  }
  return FileLock(std::move(file));
}

FileLock::~FileLock() {
  if (file_.valid()) (void)::flock(file_.get(), LOCK_UN);
}

}  // namespace ashlar::symm
