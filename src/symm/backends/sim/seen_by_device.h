// SPDX-License-Identifier: Apache-2.0
//
// Requests by device addresses, as a simulated kernel needs them: by pointers to what the device
// sees there. What it does not see is refused before anything runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/sim/sim_device.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {

// kInvalidArgument: some of it is not memory that the device may read and write.
Result<std::byte*> seen_by(sim::SimDevice& device, const std::byte* address, size_t bytes);

class SeenByDevice {
 public:
  // REQUIRES: checked. What spans of host memory point to is used when the kernel runs; how many
  // rows there are for each rank is copied.
  static Result<SeenByDevice> of(sim::SimDevice& device, const Collective& what);

  const Collective& collective() const { return what_; }

 private:
  explicit SeenByDevice(const Collective& what) : what_(what) {}

  Collective what_;
  // Pointed to by what_; moving a vector leaves its elements where they are.
  std::vector<std::byte*> bases_;
  std::vector<int64_t> splits_;
};

}  // namespace ashlar::symm
