// SPDX-License-Identifier: Apache-2.0
//
// Limits from text, and the comparisons.
#include "analysis/gate.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "base/units.h"

namespace ashlar {
namespace {

// A tenth of a part in a million: what is lost in computing is nobody's fault.
constexpr double kTolerance = 1e-7;

Status not_a_limit(std::string_view given) {
  return Status::invalid_argument(text("\"", given,
                                       "\" is not a limit (expected how much more is still well, ",
                                       "such as +2% or +100MiB)"));
}

// Digits and a point, nothing else.
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
          .allowed = base * (1 + limit.part) + static_cast<double>(limit.bytes)};
}

}  // namespace

GateFigures gate_figures(const Timeline& timeline) {
  GateFigures figures;
  figures.peak_requested_bytes = timeline.requested.bytes;
  figures.peak_reserved_bytes = timeline.reserved.bytes;
  const TimelinePoint& peak = timeline.at(timeline.reserved.entry);
  // A trace without segment entries tells nothing of what was reserved.
  if (peak.reserved_bytes > 0 && peak.reserved_bytes >= peak.requested_bytes()) {
    figures.fragmentation =
        1 - static_cast<double>(peak.requested_bytes()) / static_cast<double>(peak.reserved_bytes);
  }
  return figures;
}

Result<GateLimit> parse_gate_limit(std::string_view given) {
  std::string_view limit = given;
  if (limit.starts_with('+')) limit.remove_prefix(1);
  if (limit.ends_with('%')) {
    const std::optional<double> percent = parse_percent(limit.substr(0, limit.size() - 1));
    if (!percent) return not_a_limit(given);
    return GateLimit{.part = *percent / 100};
  }
  const Result<size_t> bytes = parse_bytes(limit);
  if (!bytes.ok()) return not_a_limit(given);
  return GateLimit{.bytes = *bytes};
}

bool GateVerdict::is_passed() const {
  return std::all_of(checks.begin(), checks.end(),
                     [](const GateCheck& check) { return check.is_passed(); });
}

GateVerdict judge(const GateFigures& base, const GateFigures& now, const GateLimits& limits) {
  GateVerdict verdict;
  if (limits.peak) {
    verdict.checks.push_back(check_bytes("peak requested", base.peak_requested_bytes,
                                         now.peak_requested_bytes, *limits.peak));
    verdict.checks.push_back(check_bytes("peak reserved", base.peak_reserved_bytes,
                                         now.peak_reserved_bytes, *limits.peak));
  }
  if (limits.fragmentation_part) {
    verdict.checks.push_back(
        {.name = "fragmentation",
         .unit = GateUnit::kPart,
         .base = base.fragmentation,
         .now = now.fragmentation,
         .allowed = base.fragmentation + *limits.fragmentation_part + kTolerance});
  }
  return verdict;
}

}  // namespace ashlar
