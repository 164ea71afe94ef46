// SPDX-License-Identifier: Apache-2.0
//
// Regression check for continuous integration: determines whether a run exceeds a baseline by more
// than the given limits. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/timeline.h"
#include "ashlar/status.h"

namespace ashlar {

// The metrics of a run that are compared.
struct GateMetrics {
  size_t peak_requested_bytes = 0;
  size_t peak_reserved_bytes = 0;
  // 1 - requested / reserved, at Timeline::reserved_peak. 0 if the reserved bytes are unknown.
  double fragmentation = 0;
};

GateMetrics gate_metrics(const Timeline& timeline);

// An allowed increase, as a fraction of the baseline or in bytes. At least one of the two fields is
// 0.
struct GateLimit {
  double fraction = 0;
  size_t bytes = 0;
};

// Parses "+2%", "2.5%" or "+100MiB".
// kInvalidArgument: other text.
Result<GateLimit> parse_gate_limit(std::string_view text);

// Metrics without a limit are not checked.
struct GateLimits {
  std::optional<GateLimit> peak{};  // applies to requested and to reserved bytes
  // The allowed increase of GateMetrics::fragmentation: 0.01 is one percentage point.
  std::optional<double> fragmentation_fraction{};
};

enum class GateUnit { kBytes, kFraction };

struct GateCheck {
  std::string_view name;  // such as "peak requested"
  GateUnit unit = GateUnit::kBytes;
  double base = 0;
  double now = 0;
  double allowed = 0;  // passed if now <= allowed
  bool is_passed() const { return now <= allowed; }
};

struct GateResult {
  std::vector<GateCheck> checks{};
  bool is_passed() const;
};

GateResult check_gate(const GateMetrics& base, const GateMetrics& now, const GateLimits& limits);

}  // namespace ashlar
