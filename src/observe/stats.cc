// The statistics under PyTorch's names.
#include "ashlar/stats.h"

#include "ashlar/trace.h"

namespace ashlar {
namespace {

// Visits every quantity with its name, in PyTorch's order of fields.
template <typename Stats, typename Visit>
void for_each_triple(Stats& stats, const Visit& visit) {
  visit("active", stats.active);
  visit("active_bytes", stats.active_bytes);
  visit("allocated_bytes", stats.allocated_bytes);
  visit("allocation", stats.allocation);
  visit("inactive_split", stats.inactive_split);
  visit("inactive_split_bytes", stats.inactive_split_bytes);
  visit("requested_bytes", stats.requested_bytes);
  visit("reserved_bytes", stats.reserved_bytes);
  visit("segment", stats.segment);
}

template <typename Triple, typename Visit>
void for_each_member(const std::string& field, Triple& triple, const Visit& visit) {
  visit(field + ".all", triple.all);
  visit(field + ".small_pool", triple.small_pool);
  visit(field + ".large_pool", triple.large_pool);
}

template <typename Usage, typename Visit>
void for_each_of_usage(const std::string& field, Usage& usage, const Visit& visit) {
  visit(field + ".allocation", usage.allocation);
  visit(field + ".allocated_bytes", usage.allocated_bytes);
  visit(field + ".active_bytes", usage.active_bytes);
  visit(field + ".requested_bytes", usage.requested_bytes);
}

// What pools and streams have. A pool's reserved bytes go under the name PyTorch has for them,
// where it has one.
template <typename Stats, typename Visit>
void for_each_part(Stats& stats, const Visit& visit) {
  for (auto& [id, usage] : stats.pools) {
    const std::string pool = std::to_string(id.capture) + "_" + std::to_string(id.user);
    for_each_of_usage("pool." + pool, usage, visit);
    const std::string reserved =
        id.is_default() ? "pool.0_0.reserved_bytes" : "reserved_bytes_by_private_pools." + pool;
    for_each_member(reserved, usage.reserved_bytes, visit);
  }
  for (auto& [id, usage] : stats.streams) {
    const std::string stream = "stream." + std::to_string(id.value());
    for_each_of_usage(stream, usage, visit);
    for_each_member(stream + ".reserved_bytes", usage.reserved_bytes, visit);
  }
}

template <typename Stats, typename Visit>
void for_each_stat(Stats& stats, const Visit& visit) {
  for_each_triple(stats,
                  [&](const char* name, auto& triple) { for_each_member(name, triple, visit); });
  visit(std::string("oversize_allocations"), stats.oversize_allocations);
  visit(std::string("oversize_segments"), stats.oversize_segments);
  for_each_part(stats, visit);
}

}  // namespace

void AllocatorStats::reset_peaks() {
  for_each_stat(*this, [](const std::string&, Stat& stat) { stat.reset_peak(); });
}

void AllocatorStats::reset_totals() {
  for_each_stat(*this, [](const std::string&, Stat& stat) { stat.reset_totals(); });
  alloc_retries = ooms = oom_rejections = sync_all_streams = device_allocs = device_frees = 0;
}

std::vector<std::pair<std::string, int64_t>> AllocatorStats::flatten() const {
  std::vector<std::pair<std::string, int64_t>> flat;
  for_each_stat(*this, [&](const std::string& field, const Stat& stat) {
    flat.emplace_back(field + ".current", stat.current);
    flat.emplace_back(field + ".peak", stat.peak);
    flat.emplace_back(field + ".allocated", stat.risen);
    flat.emplace_back(field + ".freed", stat.fallen);
  });
  flat.emplace_back("max_split_size", max_split_bytes);
  flat.emplace_back("num_alloc_retries", alloc_retries);
  flat.emplace_back("num_device_alloc", device_allocs);
  flat.emplace_back("num_device_free", device_frees);
  flat.emplace_back("num_oom_rejections", oom_rejections);
  flat.emplace_back("num_ooms", ooms);
  flat.emplace_back("num_sync_all_streams", sync_all_streams);
  return flat;
}

std::string_view name(TraceAction action) {
  switch (action) {
    case TraceAction::kAlloc: return "alloc";
    case TraceAction::kFreeRequested: return "free_requested";
    case TraceAction::kFreeCompleted: return "free_completed";
    case TraceAction::kSegmentAlloc: return "segment_alloc";
    case TraceAction::kSegmentFree: return "segment_free";
    case TraceAction::kSegmentMap: return "segment_map";
    case TraceAction::kSegmentUnmap: return "segment_unmap";
    case TraceAction::kSnapshot: return "snapshot";
    case TraceAction::kOom: return "oom";
    case TraceAction::kAnnotate: return "annotate";
  }
  return "unknown";
}

}  // namespace ashlar
