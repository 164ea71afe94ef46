// SPDX-License-Identifier: Apache-2.0
//
// Ranks that share one GPU of the stand-in driver or, with ASHLAR_TEST_DEVICE=cuda, a real GPU. A
// driver does not survive fork, so each rank opens its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/devices.h"
#include "mp/harness/device_rank.h"
#include "mp/harness/ranks.h"
#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {

bool is_on_hardware();
std::unique_ptr<DeviceSet> open_test_devices();

GroupOptions gpu_group_options(const RankSpec& rank, bool may_share = true);

// Joins and leaves a group of one rank, so that the driver opens all descriptors that it keeps
// until the process exits. Later leak checks then do not count these descriptors.
void warm_up(Device& device);

// Runs `body` on the device. Counts only descriptors opened by `body`, because a loaded driver
// keeps other descriptors open until the process exits.
RankMain on_gpu(const std::function<std::string(const RankSpec& rank, Device& device)>& body);
std::vector<std::string> gpu_results(RankProcesses& ranks);

class SymmetricGpuKernels : public ::testing::Test {
 protected:
  void SetUp() override;  // skips if the build has no kernels
};

using KernelBody = std::function<std::string(DeviceRank& own)>;
// Each rank joins, runs `body` on the GPU, and leaves unless `body` returns an error.
RankMain with_kernels(const KernelBody& body);

// Returns options with kTestTimeout.
CollectiveOptions with_test_timeout(int64_t offset = 0, void* out = nullptr);

}  // namespace ashlar::symm
