// SPDX-License-Identifier: Apache-2.0
//
// A pool where one thread's allocations on a device go for a while. Its blocks may outlive it.
#pragma once

#include <map>

#include "field.h"
#include "routed.h"

namespace ashlar::stress {

class Session {
 public:
  Session(Field& field, Random& random);
  // Lets go of the pool, which goes with the last of its blocks.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  size_t device() const { return device_; }
  Result<Held> allocate(const AllocationRequest& request);

 private:
  void expect_not_remapped(const Held& held);

  Field& field_;
  const size_t device_;
  const PoolId pool_;
  PoolOptions options_;
  std::map<ExtentId, DeviceAddress> registered_;  // of a pool that never remaps: what was where
};

}  // namespace ashlar::stress
