// SPDX-License-Identifier: Apache-2.0
//
// Ranks of symmetric memory with a device of the stand-in driver each, which may differ from rank
// to rank in what it can do. Never on hardware: tests have one GPU there.
#pragma once

#include <functional>
#include <string>

#include "mp/gpu_rank.h"
#include "standin/control.h"

namespace ashlar::symm {

// A rank's driver.
struct OwnDriver {
  standin::Abilities abilities{};
  std::string library = ASHLAR_CUDA_STANDIN;
};

// One rank with its own device.
struct OwnGpuRank {
  const BareRank& rank;
  Device& device;
  const standin::ControlTable& driver;  // what can be done to it
  size_t open_fds = 0;                  // before there was anything of the test's

  // Of the library and of descriptors, while there is nothing but what `body` made.
  std::string leftovers() const;
};

// What `body` leaves behind in the driver is wrong, too.
using OwnGpuBody = std::function<std::string(const OwnGpuRank& own)>;
BareBody on_own_gpu(const std::function<OwnDriver(int rank)>& driver_of, const OwnGpuBody& body);
BareBody on_own_gpu(const OwnGpuBody& body);

}  // namespace ashlar::symm
