// SPDX-License-Identifier: Apache-2.0
//
// Compares what the recording requests with what programs on current devices request.
#include "analysis/replay/simulated_granularity.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "analysis/timeline.h"
#include "ashlar/sim.h"

namespace ashlar {
namespace {

// Recordings that need more memory than this are simulated with large granules. Current devices
// have less than a third of it.
constexpr size_t kMaxPlausibleBytes = size_t{1} << 40;
// Maximum number of granules of the simulated device if the granules are large. A file of a few
// kilobytes may request any size, and the work of a replay and its host memory grow with the number
// of granules that it maps.
constexpr size_t kMaxGranuleCount = size_t{1} << 13;

// Close to the memory limit, every request may flush the cache and map its memory again. Therefore
// recordings whose requests add up to more than kPlausibleTotalBytes, and have a mean of more than
// kPlausibleMeanBytes, are simulated with large granules, too. Current models have a mean of a few
// hundred megabytes at most.
constexpr double kPlausibleTotalBytes = 0x1p41;       // 2 TiB
constexpr double kPlausibleMeanBytes = 0x1p30;        // 1 GiB
constexpr double kMaxRequestedGranuleCount = 0x1p18;  // granules of all requests together
constexpr size_t kMinGranuleCount = 64;               // granules of the device

// Returns the highest sum of the bytes of live allocations, or the largest request if it is larger.
size_t peak_requested_bytes(const std::vector<TraceEntry>& trace, const Allocations& allocations) {
  size_t now = 0;
  for (const Allocation& allocation : allocations.all) {
    if (allocation.predates_trace()) now += allocation.bytes;
  }
  size_t peak = now;
  for_each_change(allocations, [&](uint32_t entry, const Allocation& allocation) {
    if (allocation.alloc_entry == entry) now += allocation.bytes;
    if (allocation.completed_entry == entry) now -= allocation.bytes;
    peak = std::max(peak, now);
  });
  for (const TraceEntry& entry : trace) {
    if (entry.action == TraceAction::kOom) peak = std::max(peak, entry.bytes);
  }
  return peak;
}

// Returns the sum of the sizes of all requests. Requests that exceed the capacity fail before they
// map memory, so they are not counted.
double total_requested_bytes(const std::vector<TraceEntry>& trace, size_t capacity_bytes) {
  double total = 0;
  for (const TraceEntry& entry : trace) {
    const bool is_request =
        entry.action == TraceAction::kAlloc || entry.action == TraceAction::kOom;
    if (is_request && entry.bytes <= capacity_bytes) total += static_cast<double>(entry.bytes);
  }
  return total;
}

}  // namespace

size_t granularity_bytes_for(const Snapshot& snapshot, const Allocations& allocations,
                             DeviceIndex device, size_t capacity_bytes) {
  const std::vector<TraceEntry>& trace = trace_of(snapshot, device);
  capacity_bytes = std::min(capacity_bytes, sim::kMaxCapacityBytes);
  size_t granularity_bytes = sim::Options().granularity_bytes;
  const size_t needed_bytes =
      std::max(peak_reserved_bytes_of(snapshot, device), peak_requested_bytes(trace, allocations));
  if (std::min(needed_bytes, capacity_bytes) > kMaxPlausibleBytes) {
    granularity_bytes = std::bit_ceil(capacity_bytes / kMaxGranuleCount);
  }
  const double requested_bytes = total_requested_bytes(trace, capacity_bytes);
  const double plausible_bytes =
      std::max(kPlausibleTotalBytes, kPlausibleMeanBytes * static_cast<double>(trace.size()));
  if (requested_bytes > plausible_bytes) {
    const auto wanted = static_cast<size_t>(requested_bytes / kMaxRequestedGranuleCount);
    const size_t most = std::bit_floor(capacity_bytes / kMinGranuleCount);
    granularity_bytes = std::max(granularity_bytes, std::min(std::bit_ceil(wanted), most));
  }
  return granularity_bytes;
}

}  // namespace ashlar
