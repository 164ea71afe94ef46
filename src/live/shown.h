// SPDX-License-Identifier: Apache-2.0
//
// What a process shows of itself: values, copied out before a word of them is sent, so that nobody
// who reads slowly keeps an allocator waiting. And the one who copies them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ashlar/host_stats.h"
#include "ashlar/snapshot.h"
#include "ashlar/stats.h"
#include "ashlar/status.h"

namespace ashlar::live {

struct ShownAllocator {
  uint64_t number = 0;  // in the order in which they were made; never used twice
  std::string backend{};
  uint64_t device = 0;  // within the back end
  std::string device_name{};
  std::string engine{};
  std::string options{};  // that are not the default
  size_t capacity_bytes = 0;
  bool is_history_on = false;
  AllocatorStats stats{};
};

// Of pinned host memory.
struct ShownHostAllocator {
  uint64_t number = 0;  // as above, but counted for themselves
  std::string backend{};
  uint64_t device = 0;  // for which it pins
  std::string device_name{};
  HostStats stats{};
};

struct ShownProcess {
  int64_t pid = 0;  // as the process itself sees it
  std::string program{};
  std::string version{};     // of Ashlar
  double shown_seconds = 0;  // since it began to show itself
  std::string trouble{};     // what was asked for and could not be had; empty: nothing
  std::vector<ShownAllocator> allocators{};
  std::vector<ShownHostAllocator> host_allocators{};
};

// Thread safe. Nothing calls a driver: a device that hangs can still be looked at.
class Showcase {
 public:
  virtual ~Showcase() = default;
  virtual ShownProcess look() = 0;
  // In the order of their numbers.
  virtual std::vector<uint64_t> numbers() = 0;
  struct Wanted {
    uint64_t allocator = 0;
    bool include_traces = true;
    int64_t since_us = 0;  // of the history
  };
  // kInvalidArgument: there is no such allocator (any more).
  virtual Result<Snapshot> snapshot(const Wanted& wanted) = 0;
};

}  // namespace ashlar::live
