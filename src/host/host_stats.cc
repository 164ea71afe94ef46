// The statistics of pinned memory under PyTorch's names, and their resets.
#include "ashlar/host_stats.h"

namespace ashlar {
namespace {

template <typename Stats, typename Visit>
void for_each_stat(Stats& stats, const Visit& visit) {
  visit("active_bytes", stats.active_bytes);
  visit("active_requests", stats.active_requests);
  visit("allocated_bytes", stats.allocated_bytes);
  visit("allocations", stats.allocations);
  visit("graph_blocks", stats.graph_blocks);
  visit("graph_bytes", stats.graph_bytes);
  visit("pending_blocks", stats.pending_blocks);
  visit("pending_bytes", stats.pending_bytes);
  visit("requested_bytes", stats.requested_bytes);
}

template <typename Stats, typename Visit>
void for_each_duration(Stats& stats, const Visit& visit) {
  visit("host_alloc_time", stats.host_alloc_time);
  visit("host_free_time", stats.host_free_time);
}

int64_t microseconds(int64_t nanoseconds) { return nanoseconds / 1000; }

}  // namespace

void HostStats::reset_peaks() {
  for_each_stat(*this, [](const char*, Stat& stat) { stat.reset_peak(); });
  for_each_duration(*this, [](const char*, DurationStat& time) { time.reset_peak(); });
}

void HostStats::reset_totals() {
  for_each_stat(*this, [](const char*, Stat& stat) { stat.reset_totals(); });
  for_each_duration(*this, [](const char*, DurationStat& time) { time.reset_totals(); });
  host_allocs = host_frees = alloc_retries = ooms = late_errors = 0;
  size_classes.clear();
}

std::vector<std::pair<std::string, int64_t>> HostStats::flatten() const {
  std::vector<std::pair<std::string, int64_t>> flat;
  for_each_stat(*this, [&](const std::string& name, const Stat& stat) {
    flat.emplace_back(name + ".current", stat.current);
    flat.emplace_back(name + ".peak", stat.peak);
    flat.emplace_back(name + ".allocated", stat.risen);
    flat.emplace_back(name + ".freed", stat.fallen);
  });
  for_each_duration(*this, [&](const std::string& name, const DurationStat& time) {
    flat.emplace_back(name + ".total", microseconds(time.total_ns));
    flat.emplace_back(name + ".max", microseconds(time.max_ns));
    flat.emplace_back(name + ".min", microseconds(time.min_ns));
    flat.emplace_back(name + ".count", time.count);
    const int64_t average_ns = time.count == 0 ? 0 : time.total_ns / time.count;
    flat.emplace_back(name + ".avg", microseconds(average_ns));
  });
  flat.emplace_back("num_host_alloc", host_allocs);
  flat.emplace_back("num_host_free", host_frees);
  flat.emplace_back("num_alloc_retries", alloc_retries);
  flat.emplace_back("num_late_errors", late_errors);
  flat.emplace_back("num_ooms", ooms);
  flat.emplace_back("reserve_bytes", static_cast<int64_t>(reserve_bytes));
  flat.emplace_back("reserve_used_bytes", static_cast<int64_t>(reserve_used_bytes));
  for (const SizeClassCount& size_class : size_classes) {
    flat.emplace_back("bucket_allocation." + std::to_string(size_class.class_bytes),
                      size_class.count);
  }
  return flat;
}

}  // namespace ashlar
