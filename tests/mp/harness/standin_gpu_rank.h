// SPDX-License-Identifier: Apache-2.0
//
// Ranks that each have their own device of the stand-in driver, possibly with different
// capabilities. These ranks never run on hardware, where tests have a single GPU.
#pragma once

#include <functional>
#include <string>

#include "mp/harness/gpu_rank.h"
#include "standin/control.h"

namespace ashlar::symm {

// Configuration of one rank's driver.
struct StandinDriver {
  standin::Features features{};
  std::string library = ASHLAR_CUDA_STANDIN;
};

// One rank with its own device.
struct StandinGpuRank {
  const RankSpec& rank;
  Device& device;
  const standin::ControlTable& driver;  // controls the stand-in
  size_t open_fds = 0;                  // number of open descriptors before `body` ran

  // Describes the driver objects and descriptors that `body` leaked; empty if it leaked none.
  std::string leftovers() const;
};

// A rank's function. Its leaks are appended to its result.
using StandinGpuBody = std::function<std::string(const StandinGpuRank& own)>;
RankMain on_standin_gpu(const std::function<StandinDriver(int rank)>& driver_of,
                        const StandinGpuBody& body);
RankMain on_standin_gpu(const StandinGpuBody& body);

}  // namespace ashlar::symm
