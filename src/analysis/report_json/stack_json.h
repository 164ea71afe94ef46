// SPDX-License-Identifier: Apache-2.0
//
// Stacks as JSON.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ashlar/snapshot.h"

namespace ashlar {

// [{"name", "filename", "line"}, ...], innermost first, with full paths.
nlohmann::ordered_json stack_json(const std::vector<const Frame*>& frames);

}  // namespace ashlar
