// SPDX-License-Identifier: Apache-2.0
//
// The status of a process as live monitoring reports it, and the interface that provides it. All
// values are copied before any byte is sent, so that slow clients never block an allocator.
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

struct AllocatorStatus {
  uint64_t number = 0;  // counts allocators in order of creation; never reused
  std::string backend{};
  uint64_t device = 0;  // index within the back end
  std::string device_name{};
  std::string engine{};
  std::string options{};  // the non-default options
  size_t capacity_bytes = 0;
  bool is_history_on = false;
  AllocatorStats stats{};
};

// An allocator of pinned host memory.
struct HostAllocatorStatus {
  uint64_t number = 0;  // counts host allocators in order of creation; never reused
  std::string backend{};
  uint64_t device = 0;  // the device for which the allocator pins memory
  std::string device_name{};
  HostStats stats{};
};

struct ProcessStatus {
  int64_t pid = 0;  // PID in the process's own PID namespace
  std::string program{};
  std::string version{};         // the version of Ashlar
  double monitored_seconds = 0;  // the time since monitoring started
  std::string problem{};         // what could not be set up as requested; empty if nothing failed
  std::vector<AllocatorStatus> allocators{};
  std::vector<HostAllocatorStatus> host_allocators{};
};

// Provides the status and snapshots of this process. Thread safe. Calls no driver, so that a
// process with a hung device can still be monitored.
class StatusSource {
 public:
  virtual ~StatusSource() = default;
  virtual ProcessStatus status() = 0;
  // Returns the numbers of all device allocators, in ascending order.
  virtual std::vector<uint64_t> allocator_numbers() = 0;
  struct SnapshotRequest {
    uint64_t allocator = 0;
    bool include_traces = true;
    int64_t since_us = 0;  // entries before this time, in µs since 1970, are left out
  };
  // Takes a snapshot of an allocator. kInvalidArgument: there is no such allocator.
  virtual Result<Snapshot> snapshot(const SnapshotRequest& request) = 0;
};

}  // namespace ashlar::live
