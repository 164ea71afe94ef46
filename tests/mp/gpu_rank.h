// SPDX-License-Identifier: Apache-2.0
//
// Ranks of symmetric memory on a vendor's device, several on one: over the stand-in driver, or with
// ASHLAR_TEST_DEVICE=cuda on the real one. A driver does not survive fork, so each rank opens its
// own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/devices.h"
#include "mp/device_rank.h"
#include "mp/ranks.h"
#include "mp/symmetric_rank.h"

namespace ashlar::symm {

// The real one.
bool is_on_hardware();
std::unique_ptr<DeviceSet> open_under_test();

// The options of a rank that may share its device, or may not.
GroupOptions gpu_group_options(const BareRank& rank, bool may_share = true);

// A group of one on the device: all that is opened once has been.
void warm_up(Device& device);

// What a rank does on its device. A driver, once loaded, keeps descriptors of its own until the
// process ends, so that only those are counted here that come later.
BareBody on_gpu(const std::function<std::string(const BareRank& rank, Device& device)>& body);
std::vector<std::string> outcomes_of(Ranks& ranks);

// --- with kernels -------------------------------------------------------------------------------

class SymmetricGpuKernels : public ::testing::Test {
 protected:
  void SetUp() override;  // skips where there are none
};

// Joins, runs `body` and leaves.
using KernelBody = std::function<std::string(RankOnDevice& own)>;
BareBody with_kernels(const KernelBody& body);

CollectiveOptions patient(int64_t offset = 0, void* out = nullptr);

}  // namespace ashlar::symm
