// SPDX-License-Identifier: Apache-2.0
//
// One replay finds the peak. Then, in parallel, a second replay inspects the peak, and further
// replays try alternative settings.
#include "analysis/replay/report.h"

#include <algorithm>
#include <span>

#include "base/guarded_thread.h"

namespace ashlar {
namespace {

struct Attempt {
  EngineKind engine = EngineKind::kClassic;
  const char* conf = "";
  // If true, the attempt is skipped for long traces, so that a report takes only seconds.
  bool only_if_short = false;
};

// The alternatives for recordings of the classic engine and of the paged engine.
constexpr Attempt kForClassic[] = {
    {EngineKind::kClassic, "expandable_segments:True"},
    {EngineKind::kClassic, "max_split_size_mb:256", true},
    {EngineKind::kClassic, "roundup_power2_divisions:8", true},
    {EngineKind::kPaged, ""},
};
constexpr Attempt kForPaged[] = {
    {EngineKind::kPaged, ""},
    {EngineKind::kPaged, "policy:lean"},
    {EngineKind::kClassic, "expandable_segments:True", true},
};
constexpr size_t kLongTrace = 1'000'000;

Result<std::vector<Alternative>> try_alternatives(const Snapshot& snapshot,
                                                  const Allocations& allocations,
                                                  ReplayOptions options) {
  const bool is_long = snapshot.device_traces[options.device.value()].size() > kLongTrace;
  const bool is_paged = options.recorded.engine == EngineKind::kPaged;
  std::vector<Alternative> tried;
  for (const Attempt& attempt : is_paged ? std::span<const Attempt>(kForPaged) : kForClassic) {
    if (is_long && attempt.only_if_short) continue;
    AllocatorOptions base = options.recorded;
    base.engine = attempt.engine;
    Result<Setting> setting = parse_setting(attempt.conf, base);
    if (!setting.ok()) return setting.status();
    if (same_policy(setting->options, options.recorded)) continue;
    options.allocator = setting->options;
    const Result<ReplayResult> replayed = replay(snapshot, allocations, options);
    if (!replayed.ok()) return replayed.status();
    tried.push_back({*std::move(setting),
                     static_cast<size_t>(replayed->stats.reserved_bytes.all.peak),
                     replayed->ooms.size()});
  }
  std::stable_sort(tried.begin(), tried.end(), [](const Alternative& a, const Alternative& b) {
    return std::pair(a.oom_count, a.peak_reserved_bytes) <
           std::pair(b.oom_count, b.peak_reserved_bytes);
  });
  return tried;
}

bool any_stack(const Allocations& allocations) {
  return std::any_of(allocations.all.begin(), allocations.all.end(),
                     [](const Allocation& each) { return each.stack != StackId(); });
}

}  // namespace

Result<Report> make_report(const Snapshot& snapshot, const Allocations& allocations,
                           const ReplayOptions& options) {
  Result<ReplayResult> replayed = replay(snapshot, allocations, options);
  if (!replayed.ok()) return replayed.status();
  Report report;
  report.replayed = *std::move(replayed);
  const uint32_t peak = report.replayed.peak_entry;
  ReplayOptions inspecting = options;
  inspecting.inspect_after = peak;
  inspecting.progress = nullptr;

  Result<ReplayResult> inspected = Status::invalid_argument("not inspected");
  Result<GuardedThread> other = GuardedThread::start([&] {
    inspected = replay(snapshot, allocations, inspecting);
    report.bound = find_lower_bound(allocations, options.keep_going);
  });
  if (!other.ok()) return other.status();
  ReplayOptions trying = options;
  trying.progress = nullptr;
  Result<std::vector<Alternative>> alternatives = try_alternatives(snapshot, allocations, trying);
  other->join();
  if (!inspected.ok()) return inspected.status();
  if (!alternatives.ok()) return alternatives.status();
  if (options.keep_going && !options.keep_going()) {
    return Status::timeout("the report was cancelled");  // its lower bound may be incomplete
  }

  const std::vector<TraceEntry>& trace = snapshot.device_traces[options.device.value()];
  report.causes = explain_gap(inspected->inspected_segments,
                              trace.empty() ? RequestClass() : request_class_of(trace[peak]));
  report.at_peak = present_at(allocations, peak);
  report.alternatives = *std::move(alternatives);
  report.initial_reserved_bytes = report.replayed.reserved.front().reserved_bytes;
  report.has_stacks = any_stack(allocations);
  return report;
}

}  // namespace ashlar
