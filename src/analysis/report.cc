// One replay finds the peak. Then, side by side: another looks at it, and others try what would
// have been better.
#include "analysis/report.h"

#include <algorithm>
#include <thread>

#include "analysis/starting_state.h"
#include "base/thread.h"
#include "base/units.h"

namespace ashlar {
namespace {

// Tried in this order; of a very long run only the first, to keep the page a matter of seconds.
struct Change {
  const char* conf;
  void (*apply)(AllocatorOptions& options);
};
constexpr Change kAlternatives[] = {
    {"expandable_segments:True", [](AllocatorOptions& o) { o.expandable_segments = true; }},
    {"max_split_size_mb:256", [](AllocatorOptions& o) { o.max_split_bytes = 256 * kMiB; }},
    {"roundup_power2_divisions:8", [](AllocatorOptions& o) { o.roundup_power2_divisions.fill(8); }},
};
constexpr size_t kLongTrace = 1'000'000;

Result<std::vector<Alternative>> try_alternatives(const Snapshot& snapshot,
                                                  const Allocations& allocations,
                                                  ReplayOptions options) {
  const bool is_long = snapshot.device_traces[options.device.value()].size() > kLongTrace;
  std::vector<Alternative> tried;
  for (const Change& change : kAlternatives) {
    if (is_long && !tried.empty()) break;
    options.allocator = {};
    options.allocator.pytorch_compatible = true;
    change.apply(options.allocator);
    if (options.allocator == options.recorded) continue;
    const Result<ReplayResult> replayed = replay(snapshot, allocations, options);
    if (!replayed.ok()) return replayed.status();
    tried.push_back({change.conf, static_cast<size_t>(replayed->stats.reserved_bytes.all.peak),
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

Demand demand_at(const std::vector<TraceEntry>& trace, const Allocations& allocations,
                 uint32_t entry) {
  if (entry >= trace.size()) return {};
  Demand demand;
  demand.stream = trace[entry].stream;
  demand.is_large = !SizePolicy::is_small(trace[entry].bytes);
  const uint32_t id = allocations.of_entry[entry];
  if (id != Allocation::kNever) demand.pool = allocations.all[id].pool;
  return demand;
}

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
  report.causes = explain_gap(looked->looked_at, demand_at(trace, allocations, peak));
  report.at_peak = present_at(allocations, peak);
  report.alternatives = *std::move(alternatives);
  report.start_reserved_bytes = report.replayed.reserved.front().reserved_bytes;
  report.has_stacks = any_stack(allocations);
  return report;
}

}  // namespace ashlar
