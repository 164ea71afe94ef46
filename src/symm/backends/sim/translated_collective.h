// SPDX-License-Identifier: Apache-2.0
//
// Translates the device addresses of a request to host pointers, for simulated kernels. Memory that
// the device cannot access is rejected before anything runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/sim/sim_device.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {

// Returns the host pointer for a range of device memory, or kInvalidArgument if the device cannot
// read and write the range.
Result<std::byte*> translate(sim::SimDevice& device, const std::byte* address, size_t bytes);

class TranslatedCollective {
 public:
  // Copies `request` and translates its addresses. Also copies the splits of an all-to-all-v; other
  // spans of host memory must stay valid until the kernel has run. REQUIRES: `check` (operations.h)
  // returned ok.
  static Result<TranslatedCollective> of(sim::SimDevice& device, const Collective& request);

  const Collective& collective() const { return collective_; }

 private:
  explicit TranslatedCollective(const Collective& request) : collective_(request) {}

  Collective collective_;
  // collective_ points into these vectors; moving a vector does not move its elements.
  std::vector<std::byte*> bases_;
  std::vector<int64_t> splits_;
};

}  // namespace ashlar::symm
