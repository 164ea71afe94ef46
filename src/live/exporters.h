// SPDX-License-Identifier: Apache-2.0
//
// Serializes a process's status as OpenMetrics text for Prometheus and as JSON. The names of
// metrics and keys are stable: docs/reference/formats/live.md.
#pragma once

#include <string>
#include <string_view>

#include "live/process_status.h"

namespace ashlar::live {

inline constexpr std::string_view kOpenMetricsType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// These functions return the complete text. The OpenMetrics text includes the final "# EOF".
std::string format_openmetrics(const ProcessStatus& process);

std::string format_stats_json(const ProcessStatus& process);

}  // namespace ashlar::live
