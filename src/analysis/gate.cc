// SPDX-License-Identifier: Apache-2.0
//
// Parses limits such as "+2%" and "+100MiB", and compares each metric with the baseline.
#include "analysis/gate.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "base/units.h"

namespace ashlar {
namespace {

// Absorbs floating-point rounding errors when fragmentation is compared with its limit.
constexpr double kTolerance = 1e-7;

Status not_a_limit_error(std::string_view given) {
  return Status::invalid_argument(text(
      "\"", given, "\" is not a limit (expected an allowed increase such as ", "+2% or +100MiB)"));
}

// Parses a percentage of at most 12 characters, all of them digits or a decimal point.
std::optional<double> parse_percent(std::string_view digits) {
  if (digits.empty() || digits.size() > 12 ||
      digits.find_first_not_of("0123456789.") != std::string_view::npos) {
    return std::nullopt;
  }
  double percent = 0;
  const char* end = digits.data() + digits.size();
  const std::from_chars_result read = std::from_chars(digits.data(), end, percent);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return percent;
}

GateCheck check_bytes(std::string_view name, size_t base_bytes, size_t now_bytes,
                      const GateLimit& limit) {
  const auto base = static_cast<double>(base_bytes);
  return {.name = name,
          .unit = GateUnit::kBytes,
          .base = base,
          .now = static_cast<double>(now_bytes),
          .allowed = base * (1 + limit.fraction) + static_cast<double>(limit.bytes)};
}

}  // namespace

GateMetrics gate_metrics(const Timeline& timeline) {
  GateMetrics metrics;
  metrics.peak_requested_bytes = timeline.requested_peak.bytes;
  metrics.peak_reserved_bytes = timeline.reserved_peak.bytes;
  const TimelinePoint& peak = timeline.at(timeline.reserved_peak.entry);
  // Without segment entries, the reserved bytes are unknown and the fragmentation stays 0.
  if (peak.reserved_bytes > 0 && peak.reserved_bytes >= peak.requested_bytes()) {
    metrics.fragmentation =
        1 - static_cast<double>(peak.requested_bytes()) / static_cast<double>(peak.reserved_bytes);
  }
  return metrics;
}

Result<GateLimit> parse_gate_limit(std::string_view given) {
  std::string_view limit = given;
  if (limit.starts_with('+')) limit.remove_prefix(1);
  if (limit.ends_with('%')) {
    const std::optional<double> percent = parse_percent(limit.substr(0, limit.size() - 1));
    if (!percent) return not_a_limit_error(given);
    return GateLimit{.fraction = *percent / 100};
  }
  const Result<size_t> bytes = parse_bytes(limit);
  if (!bytes.ok()) return not_a_limit_error(given);
  return GateLimit{.bytes = *bytes};
}

bool GateResult::is_passed() const {
  return std::all_of(checks.begin(), checks.end(),
                     [](const GateCheck& check) { return check.is_passed(); });
}

GateResult check_gate(const GateMetrics& base, const GateMetrics& now, const GateLimits& limits) {
  GateResult result;
  if (limits.peak) {
    result.checks.push_back(check_bytes("peak requested", base.peak_requested_bytes,
                                        now.peak_requested_bytes, *limits.peak));
    result.checks.push_back(check_bytes("peak reserved", base.peak_reserved_bytes,
                                        now.peak_reserved_bytes, *limits.peak));
  }
  if (limits.fragmentation_fraction) {
    result.checks.push_back(
        {.name = "fragmentation",
         .unit = GateUnit::kFraction,
         .base = base.fragmentation,
         .now = now.fragmentation,
         .allowed = base.fragmentation + *limits.fragmentation_fraction + kTolerance});
  }
  return result;
}

}  // namespace ashlar
