// SPDX-License-Identifier: Apache-2.0
//
// Operations that only the paged engine has, or that do more in it than in other engines.
#pragma once

#include <vector>

#include "sweep/host_fault_world.h"

namespace ashlar::paged {

std::vector<sweep::HostFaultScenario> paged_host_fault_scenarios();

}  // namespace ashlar::paged
