// SPDX-License-Identifier: Apache-2.0
//
// The counters as JSON: docs/formats/live.md.
#pragma once

#include <string>

#include "live/shown.h"

namespace ashlar::live {

std::string stats_json(const ShownProcess& process);

}  // namespace ashlar::live
