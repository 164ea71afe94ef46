// SPDX-License-Identifier: Apache-2.0
//
// Determines whether one extent can be mapped at two addresses. A successful second mapping proves
// little: some drivers accept it and lose stores, or keep the mappings incoherent. The probe
// therefore stores data through each mapping and loads it through the other mapping.
#pragma once

#include <string>

#include "device/gpu/driver.h"

namespace ashlar::gpu {

struct AliasProbeResult {
  bool can_alias = false;
  // One line that begins with the result:
  //   works: ...       every byte stored through one mapping was loaded through the other
  //   refused: ...     the driver rejected the second mapping or a transfer, with its error
  //   incoherent: ...  the driver accepted both mappings, but stores were lost or misplaced
  //   not probed: ...  an earlier driver call failed, for example because device memory ran out
  std::string report;
};

// Maps one extent of `request.bytes` bytes twice, transfers data, and undoes everything. Uses host
// copies, fills and device copies, but no kernel. Leaves no work queued. REQUIRES: the requirements
// of probe_capabilities hold.
AliasProbeResult probe_aliases(Driver& driver, const Driver::CreateRequest& request);

}  // namespace ashlar::gpu
