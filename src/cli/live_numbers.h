// SPDX-License-Identifier: Apache-2.0
//
// What a process tells of itself at /stats (docs/formats/live.md), as its watchers use it. The
// other process may be anybody's program: whatever it says is checked. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ashlar/status.h"

namespace ashlar {

// What all kinds of allocators have.
struct MemoryNumbers {
  uint64_t number = 0;
  std::string backend{};
  uint64_t device = 0;
  std::string device_name{};
  // Of all blocks together, and never below zero.
  uint64_t reserved_bytes = 0;
  uint64_t reserved_peak_bytes = 0;
  uint64_t active_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t requested_bytes = 0;
  uint64_t blocks = 0;
  uint64_t allocations = 0;  // ever, like the rest
  uint64_t retries = 0;
  uint64_t ooms = 0;
};

struct AllocatorNumbers : MemoryNumbers {
  std::string engine{};
  uint64_t capacity_bytes = 0;
  bool is_history_on = false;
  uint64_t device_calls = 0;
};

// Of pinned host memory: reserved is what is pinned for the device, allocated what is handed out,
// and its blocks are the active ones.
struct HostNumbers : MemoryNumbers {
  uint64_t host_calls = 0;
};

struct LiveNumbers {
  std::string program{};
  std::string version{};  // of Ashlar
  double shown_seconds = 0;
  std::string trouble{};
  std::vector<AllocatorNumbers> allocators{};
  std::vector<HostNumbers> host_allocators{};

  uint64_t total(uint64_t AllocatorNumbers::*quantity) const;
};

// kFormat: it is not what a process tells; the message says what is missing.
Result<LiveNumbers> read_live_numbers(std::string_view stats_json);

// For `--json`, and for the page of `ashlar view --live`.
nlohmann::ordered_json live_numbers_json(const LiveNumbers& numbers, int64_t pid);

}  // namespace ashlar
