// SPDX-License-Identifier: Apache-2.0
//
// A pool that one thread's allocations on a device use for a while. Its blocks may outlive it.
#pragma once

#include <map>

#include "environment.h"
#include "pool_selection.h"

namespace ashlar::stress {

class Session {
 public:
  Session(Environment& field, Random& random);
  // Releases the pool, which ends with its last block.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  size_t device() const { return device_; }
  Result<LiveBlock> allocate(const AllocationRequest& request);

 private:
  void expect_not_remapped(const LiveBlock& held);

  Environment& environment_;
  const size_t device_;
  const PoolId pool_;
  PoolOptions options_;
  std::map<ExtentId, DeviceAddress>
      registered_;  // for a pool that never remaps: addresses of extents
};

}  // namespace ashlar::stress
