// One replay finds the peak. Then, side by side: another looks at it, and others try what would
// have been better.
#include "analysis/report.h"

#include <algorithm>
#include <thread>

#include "analysis/settings.h"
#include "base/thread.h"

namespace ashlar {
namespace {

// Tried in this order; of a very long run only the first, to keep the page a matter of seconds.
constexpr const char* kAlternatives[] = {
    "expandable_segments:True",
    "max_split_size_mb:256",
    "roundup_power2_divisions:8",
};
constexpr size_t kLongTrace = 1'000'000;

Result<std::vector<Alternative>> try_alternatives(const Snapshot& snapshot,
                                                  const Allocations& allocations,
                                                  ReplayOptions options) {
  const bool is_long = snapshot.device_traces[options.device.value()].size() > kLongTrace;
  std::vector<Alternative> tried;
  for (const char* conf : kAlternatives) {
    if (is_long && !tried.empty()) break;
    const Result<Setting> setting = setting_of(conf, options.recorded);
    if (!setting.ok()) return setting.status();
    if (same_policy(setting->options, options.recorded)) continue;
    options.allocator = setting->options;
    const Result<ReplayResult> replayed = replay(snapshot, allocations, options);
    if (!replayed.ok()) return replayed.status();
    tried.push_back({setting->conf, static_cast<size_t>(replayed->stats.reserved_bytes.all.peak),
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
  ReplayOptions looking = options;
  looking.look_after = peak;
  looking.progress = nullptr;

  Result<ReplayResult> looked = Status::usage("not looked yet");
  Result<std::thread> other = start_thread([&] {
    looked = replay(snapshot, allocations, looking);
    report.bound = find_lower_bound(allocations);
  });
  if (!other.ok()) return other.status();
  ReplayOptions trying = options;
  trying.progress = nullptr;
  Result<std::vector<Alternative>> alternatives = try_alternatives(snapshot, allocations, trying);
  other->join();
  if (!looked.ok()) return looked.status();
  if (!alternatives.ok()) return alternatives.status();

  const std::vector<TraceEntry>& trace = snapshot.device_traces[options.device.value()];
  report.causes = explain_gap(looked->looked_at, trace.empty() ? Demand() : demand_at(trace[peak]));
  report.at_peak = present_at(allocations, peak);
  report.alternatives = *std::move(alternatives);
  report.start_reserved_bytes = report.replayed.reserved.front().reserved_bytes;
  report.has_stacks = any_stack(allocations);
  return report;
}

}  // namespace ashlar
