// SPDX-License-Identifier: Apache-2.0
//
// The counters as OpenMetrics text, for Prometheus. The names are a contract: docs/formats/live.md.
#pragma once

#include <string>
#include <string_view>

#include "live/shown.h"

namespace ashlar::live {

inline constexpr std::string_view kOpenMetricsType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// All of it, with the end mark.
std::string openmetrics(const ShownProcess& process);

}  // namespace ashlar::live
