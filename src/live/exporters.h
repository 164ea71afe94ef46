// SPDX-License-Identifier: Apache-2.0
//
// Serializes a process's status as metrics for Prometheus and as JSON. The names of metrics and
// keys are stable: docs/reference/formats/live.md.
#pragma once

#include <string>
#include <string_view>

#include "live/process_status.h"

namespace ashlar::live {

enum class MetricsFormat {
  kPrometheus,   // Prometheus text format 0.0.4
  kOpenMetrics,  // OpenMetrics 1.0, which also has units and ends with "# EOF"
};

// Returns the format to send for an Accept field: OpenMetrics if the client prefers it to the text
// format, or names it without a preference; otherwise the text format.
MetricsFormat choose_metrics_format(std::string_view accept);
// Returns the value of Content-Type.
std::string_view content_type(MetricsFormat format);

std::string format_metrics(const ProcessStatus& process, MetricsFormat format);

std::string format_stats_json(const ProcessStatus& process);

}  // namespace ashlar::live
