// SPDX-License-Identifier: Apache-2.0
//
// Lists allocator statistics under PyTorch's names, and resets them.
#include "ashlar/stats.h"

#include "ashlar/trace.h"
#include "observe/named_stats.h"

namespace ashlar {
namespace {

// Visits the quantities of a pool or a stream, except reserved bytes, whose names differ.
template <typename Usage, typename Visit>
void for_each_usage_quantity(const std::string& name, Usage& usage, const Visit& visit) {
  visit(name + ".allocation", usage.allocation);
  visit(name + ".allocated_bytes", usage.allocated_bytes);
  visit(name + ".active_bytes", usage.active_bytes);
  visit(name + ".requested_bytes", usage.requested_bytes);
}

// Visits all quantities in a fixed order.
template <typename Stats, typename Visit>
void for_each_quantity(Stats& stats, const Visit& visit) {
  visit("active", stats.active);
  visit("active_bytes", stats.active_bytes);
  visit("allocated_bytes", stats.allocated_bytes);
  visit("allocation", stats.allocation);
  visit("inactive_split", stats.inactive_split);
  visit("inactive_split_bytes", stats.inactive_split_bytes);
  visit("requested_bytes", stats.requested_bytes);
  visit("reserved_bytes", stats.reserved_bytes);
  visit("segment", stats.segment);
  visit("oversize_allocations", stats.oversize_allocations);
  visit("oversize_segments", stats.oversize_segments);
  visit("max_split_size", SettingStat{stats.max_split_bytes});
  visit("num_alloc_retries", stats.alloc_retries);
  visit("num_device_alloc", stats.device_allocs);
  visit("num_device_free", stats.device_frees);
  visit("num_oom_rejections", stats.oom_rejections);
  visit("num_ooms", stats.ooms);
  visit("num_sync_all_streams", stats.sync_all_streams);
  visit("num_stitches", stats.stitches);
  for (auto& [id, usage] : stats.pools) {
    const std::string pool = std::to_string(id.capture) + "_" + std::to_string(id.user);
    for_each_usage_quantity("pool." + pool, usage, visit);
    // PyTorch names this quantity only for private pools; pool.0_0.reserved_bytes is Ashlar's name.
    visit(id.is_default() ? "pool.0_0.reserved_bytes" : "reserved_bytes_by_private_pools." + pool,
          usage.reserved_bytes);
  }
  for (auto& [id, usage] : stats.streams) {
    const std::string stream = "stream." + std::to_string(id.value());
    for_each_usage_quantity(stream, usage, visit);
    visit(stream + ".reserved_bytes", usage.reserved_bytes);
  }
}

}  // namespace

void AllocatorStats::reset_peaks() { for_each_quantity(*this, ResetPeaksVisitor()); }
void AllocatorStats::reset_totals() { for_each_quantity(*this, ResetTotalsVisitor()); }

std::vector<std::pair<std::string, int64_t>> AllocatorStats::flatten() const {
  std::vector<std::pair<std::string, int64_t>> flat;
  for_each_quantity(*this, FlattenVisitor{flat});
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
