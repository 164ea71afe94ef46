// SPDX-License-Identifier: Apache-2.0
//
// Which files of exported extents are this machine's own, so that importing one's own memory gives
// the very same extent: one capacity, one lifetime. Thread safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "device/sim/physical_memory.h"

namespace ashlar::sim {

class OwnExports {
 public:
  void add(const std::shared_ptr<Extent>& extent);
  // Null: a file of another process, or not a file of an extent at all.
  std::shared_ptr<Extent> find(int fd);

 private:
  using FileId = std::pair<dev_t, ino_t>;

  Mutex mutex_;
  std::map<FileId, std::weak_ptr<Extent>> extents_ ASHLAR_GUARDED_BY(mutex_);
  size_t sweep_at_ ASHLAR_GUARDED_BY(mutex_) = 64;  // how many there may be till then
};

}  // namespace ashlar::sim
