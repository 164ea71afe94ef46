// SPDX-License-Identifier: Apache-2.0
//
// Converts call stacks to JSON for reports.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ashlar/snapshot.h"

namespace ashlar {

// Returns [{"name", "filename", "line"}, ...], innermost frame first, with full paths.
nlohmann::ordered_json stack_json(const std::vector<const Frame*>& frames);

}  // namespace ashlar
