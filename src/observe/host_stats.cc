// SPDX-License-Identifier: Apache-2.0
//
// Lists the statistics of pinned host memory under PyTorch's names, and resets them.
#include "ashlar/host_stats.h"

#include "observe/named_stats.h"

namespace ashlar {
namespace {

template <typename Stats, typename Visit>
void for_each_host_quantity(Stats& stats, const Visit& visit) {
  visit("active_bytes", stats.active_bytes);
  visit("active_requests", stats.active_requests);
  visit("allocated_bytes", stats.allocated_bytes);
  visit("allocations", stats.allocations);
  visit("graph_blocks", stats.graph_blocks);
  visit("graph_bytes", stats.graph_bytes);
  visit("pending_blocks", stats.pending_blocks);
  visit("pending_bytes", stats.pending_bytes);
  visit("requested_bytes", stats.requested_bytes);
  visit("host_alloc_time", stats.host_alloc_time);
  visit("host_free_time", stats.host_free_time);
  visit("num_host_alloc", stats.host_allocs);
  visit("num_host_free", stats.host_frees);
  visit("num_alloc_retries", stats.alloc_retries);
  visit("num_deferred_errors", stats.deferred_errors);
  visit("num_ooms", stats.ooms);
  visit("reserve_bytes", SettingStat{static_cast<int64_t>(stats.reserve_bytes)});
  visit("reserve_used_bytes", SettingStat{static_cast<int64_t>(stats.reserve_used_bytes)});
}

}  // namespace

void HostStats::reset_peaks() { for_each_host_quantity(*this, ResetPeaksVisitor()); }

void HostStats::reset_totals() {
  for_each_host_quantity(*this, ResetTotalsVisitor());
  size_classes.clear();
}

std::vector<std::pair<std::string, int64_t>> HostStats::flatten() const {
  std::vector<std::pair<std::string, int64_t>> flat;
  for_each_host_quantity(*this, FlattenVisitor{flat});
  for (const SizeClassCount& size_class : size_classes) {
    flat.emplace_back("bucket_allocation." + std::to_string(size_class.class_bytes),
                      size_class.count);
  }
  return flat;
}

}  // namespace ashlar
