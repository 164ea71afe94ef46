// SPDX-License-Identifier: Apache-2.0
//
// The response from a monitored process to GET /stats (docs/reference/formats/live.md). The process
// is not trusted: the response is validated. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ashlar/status.h"

namespace ashlar {

// The statistics that device and host allocators have in common. Negative integers in the response
// are read as zero.
struct LiveMemoryStats {
  uint64_t number = 0;  // number of the allocator, in the order of creation
  std::string backend{};
  uint64_t device = 0;
  std::string device_name{};
  // For a device allocator, the fields below are sums over small and large blocks.
  uint64_t reserved_bytes = 0;
  uint64_t reserved_peak_bytes = 0;
  uint64_t active_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t requested_bytes = 0;
  uint64_t blocks = 0;
  uint64_t allocations = 0;  // counted, like the two fields below, since the last reset
  uint64_t retries = 0;
  uint64_t ooms = 0;
};

struct LiveAllocatorStats : LiveMemoryStats {
  std::string engine{};
  uint64_t capacity_bytes = 0;
  bool is_history_on = false;
  uint64_t device_calls = 0;
};

// Statistics of pinned host memory: `reserved_bytes` is all pinned memory, `allocated_bytes` is its
// active part without pending frees and memory that graphs keep, and `blocks` is the number of
// active blocks.
struct LiveHostStats : LiveMemoryStats {
  uint64_t host_calls = 0;
};

struct LiveStats {
  std::string program{};
  std::string version{};         // version of Ashlar
  double monitored_seconds = 0;  // time since monitoring began
  std::string setup_error{};     // error from the setup that ASHLAR_LIVE requested; empty: none
  std::vector<LiveAllocatorStats> allocators{};
  std::vector<LiveHostStats> host_allocators{};

  uint64_t total(uint64_t LiveAllocatorStats::*quantity) const;
};

// Parses a response. kFormat: the response is not JSON, has another protocol version, or has a
// missing or invalid field, which the message names.
Result<LiveStats> parse_live_stats(std::string_view stats_json);

// Returns the statistics as JSON, for `--json` and the page of `ashlar view --live`.
nlohmann::ordered_json live_stats_json(const LiveStats& stats, int64_t pid);

}  // namespace ashlar
