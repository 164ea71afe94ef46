// SPDX-License-Identifier: Apache-2.0
//
// Whether a run got worse than the one before it, by limits that somebody set: for continuous
// integration. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/timeline.h"
#include "ashlar/status.h"

namespace ashlar {

// The figures of a run that are compared.
struct GateFigures {
  size_t peak_requested_bytes = 0;
  size_t peak_reserved_bytes = 0;
  // 1 - requested / reserved at the peak of reserved bytes, where Timeline::reserved says it is.
  double fragmentation = 0;
};

GateFigures gate_figures(const Timeline& timeline);

// How much more is still well: a part of what was there, or bytes. One of the two.
struct GateLimit {
  double part = 0;
  size_t bytes = 0;
};

// "+2%", "2.5%", "+100MiB".
// kInvalidArgument: anything else.
Result<GateLimit> parse_gate_limit(std::string_view text);

// Without a limit, a figure is not judged.
struct GateLimits {
  std::optional<GateLimit> peak{};             // for requested and for reserved bytes, each
  std::optional<double> fragmentation_part{};  // in parts of reserved memory: 0.01 is one per cent
};

enum class GateUnit { kBytes, kPart };

struct GateCheck {
  std::string_view name;  // "peak requested"
  GateUnit unit = GateUnit::kBytes;
  double base = 0;
  double now = 0;
  double allowed = 0;  // now <= allowed is well
  bool is_passed() const { return now <= allowed; }
};

struct GateVerdict {
  std::vector<GateCheck> checks{};
  bool is_passed() const;
};

GateVerdict judge(const GateFigures& base, const GateFigures& now, const GateLimits& limits);

}  // namespace ashlar
