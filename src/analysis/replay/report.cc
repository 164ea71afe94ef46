// SPDX-License-Identifier: Apache-2.0
//
// Computes the peaks and their causes from the recording. In parallel, replays the run under the
// recorded settings and under alternatives.
#include "analysis/replay/report.h"

#include <algorithm>
#include <span>

#include "analysis/layout.h"
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

Status try_alternatives(const DeviceRecording& run, ReplayOptions options, Report& report) {
  const bool is_long = run.trace().size() > kLongTrace;
  const bool is_paged = options.recorded.engine == EngineKind::kPaged;
  const AvailableOptions available = run.recording().pytorch().available;
  for (const Attempt& attempt : is_paged ? std::span<const Attempt>(kForPaged) : kForClassic) {
    if (is_long && attempt.only_if_short) continue;
    AllocatorOptions base = options.recorded;
    base.engine = attempt.engine;
    Result<Setting> setting = parse_setting(attempt.conf, base);
    if (!setting.ok()) return setting.status();
    if (same_policy(setting->options, options.recorded)) continue;
    if (!is_available(*setting, available)) continue;
    options.allocator = setting->options;
    const Result<ReplayResult> replayed = replay(run.snapshot(), run.allocations(), options);
    if (!replayed.ok()) return replayed.status();
    if (replayed->starts_as_recorded) {
      report.alternatives.push_back({*std::move(setting),
                                     static_cast<size_t>(replayed->stats.reserved_bytes.all.peak),
                                     replayed->ooms.size()});
    } else {
      report.incomparable.push_back(*std::move(setting));
    }
  }
  std::stable_sort(report.alternatives.begin(), report.alternatives.end(),
                   [](const Alternative& a, const Alternative& b) {
                     return std::pair(a.oom_count, a.peak_reserved_bytes) <
                            std::pair(b.oom_count, b.peak_reserved_bytes);
                   });
  return {};
}

Status replay_settings(const DeviceRecording& run, const ReplayOptions& options, Report& report) {
  Result<ReplayResult> replayed = replay(run.snapshot(), run.allocations(), options);
  if (!replayed.ok()) return replayed.status();
  report.replayed = *std::move(replayed);
  if (!can_compare_settings(report)) return {};
  ReplayOptions trying = options;
  trying.progress = nullptr;
  return try_alternatives(run, trying, report);
}

bool any_stack(const Allocations& allocations) {
  return std::any_of(allocations.all.begin(), allocations.all.end(),
                     [](const Allocation& each) { return each.stack != StackId(); });
}

GapCauses causes_at_peak(const DeviceRecording& run, const RecordedSizePolicy& sizes) {
  const Peak& peak = run.timeline().reserved_peak;
  const Layout layout =
      reconstruct_layout(run.snapshot(), run.device(), run.allocations(), sizes, peak.entry);
  GapCauses causes = explain_gap(layout.segments, dominant_request_class(layout.segments));
  // The paged engine also keeps extents that are part of no segment.
  const bool has_idle_extents = run.options().engine == EngineKind::kPaged;
  if (has_idle_extents && causes.reserved_bytes() < peak.bytes) {
    causes.unused_bytes += peak.bytes - causes.reserved_bytes();
  }
  return causes;
}

// If no request failed, the recorded run itself shows that its peak suffices, so a packing that
// needs more is not reported.
LowerBound bound_of(const DeviceRecording& run, const std::function<bool()>& keep_going) {
  LowerBound bound = find_lower_bound(run.allocations(), keep_going);
  // Without a history, that of the final state, not of the few frees that the file may have.
  bound.requested_bytes = run.timeline().lower_bound.bytes;
  if (run.allocations().failed.empty()) {
    bound.packed_bytes = std::min(bound.packed_bytes, run.timeline().reserved_peak.bytes);
  }
  bound.packed_bytes = std::max(bound.packed_bytes, bound.requested_bytes);
  return bound;
}

// Fills the fields that need the layout, the allocations or the snapshot. make_report() and
// replay_settings() fill the other fields.
void describe_recording(const DeviceRecording& run, const std::function<bool()>& keep_going,
                        Report& report) {
  const RecordedSizePolicy sizes(run.options());
  report.releasable_bytes = releasable_bytes(run.snapshot(), run.device(), sizes);
  report.causes = causes_at_peak(run, sizes);
  report.at_peak = present_at(run.allocations(), run.timeline().reserved_peak.entry);
  report.bound = bound_of(run, keep_going);
  report.oom_count = summarize_device(run.snapshot(), run.device()).oom_count;
  report.has_stacks = any_stack(run.allocations());
}

}  // namespace

bool can_compare_settings(const Report& report) {
  const bool has_growth = report.peak_reserved_bytes > report.initial_reserved_bytes;
  return has_growth && report.replayed && report.replayed->starts_as_recorded;
}

Result<Report> make_report(const DeviceRecording& run, const ReplayOptions& options) {
  const Timeline& timeline = run.timeline();
  Report report;
  report.peak_requested_bytes = timeline.requested_peak.bytes;
  report.peak_reserved_bytes = timeline.reserved_peak.bytes;
  report.peak_entry = timeline.reserved_peak.entry;
  report.last_growth = timeline.last_growth;
  report.initial_reserved_bytes = run.has_history() ? timeline.initial.reserved_bytes : 0;
  // The new thread runs describe_recording() while this thread runs replay_settings(). They write
  // different fields of `report`.
  Result<GuardedThread> describing =
      GuardedThread::start([&] { describe_recording(run, options.keep_going, report); });
  if (!describing.ok()) return describing.status();
  const Status replayed = run.has_history() ? replay_settings(run, options, report) : Status();
  describing->join();
  if (!replayed.ok()) return replayed;
  if (options.keep_going && !options.keep_going()) {
    return Status::timeout("the report was cancelled");  // its lower bound may be incomplete
  }
  return report;
}

}  // namespace ashlar
