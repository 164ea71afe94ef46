// SPDX-License-Identifier: Apache-2.0
//
// Files are recognised by device and inode, whatever descriptor they come under.
#include "device/sim/own_exports.h"

#include <sys/stat.h>

namespace ashlar::sim {

void OwnExports::add(const std::shared_ptr<Extent>& extent) {
  struct stat described {};
  if (::fstat(extent->fd(), &described) != 0) return;
  MutexLock lock(mutex_);
  if (extents_.size() >= sweep_at_) {
    std::erase_if(extents_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = 2 * extents_.size() + 64;
  }
  extents_[{described.st_dev, described.st_ino}] = extent;
}

std::shared_ptr<Extent> OwnExports::find(int fd) {
  struct stat described {};
  if (::fstat(fd, &described) != 0) return nullptr;
  MutexLock lock(mutex_);
  const auto found = extents_.find({described.st_dev, described.st_ino});
  return found == extents_.end() ? nullptr : found->second.lock();
}

}  // namespace ashlar::sim
