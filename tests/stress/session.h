// SPDX-License-Identifier: Apache-2.0
//
// A pool that temporarily serves one thread's allocations on one device. Its blocks may outlive the
// session.
#pragma once

#include <map>

#include "environment.h"
#include "pool_selection.h"

namespace ashlar::stress {

class Session {
 public:
  Session(Environment& environment, Random& random);
  // Releases the pool, which a trim destroys once its last block has been freed.
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
  // The address of each first extent of a block when a block was first allocated there. Recorded
  // only if the pool never remaps.
  std::map<ExtentId, DeviceAddress> first_addresses_;
};

}  // namespace ashlar::stress
