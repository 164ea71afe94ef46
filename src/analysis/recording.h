// SPDX-License-Identifier: Apache-2.0
//
// A snapshot file opened for analysis. Every command, viewer page and Python call that analyzes a
// recorded run starts here, so that all of them agree on which devices a file has and what was
// inferred about it.
//
// Recording is the whole file; DeviceRecording is one device's part of it. Both are thread safe:
// immutable, except for the timeline, which is computed once on first use.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/stack_index.h"
#include "analysis/timeline.h"
#include "ashlar/options.h"
#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "files/read_snapshot.h"

namespace ashlar {

class Recording {
 public:
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Reads a snapshot file; "-" is standard input. The path becomes the recording's name.
  // kFormat: the file cannot be opened or is not a snapshot. kTimeout: `options.input.on_progress`
  // returned false. kDeviceFault: no thread could be created.
  static Result<std::shared_ptr<const Recording>> open(const std::string& path,
                                                       const ReadOptions& options = {});

  // Takes a snapshot that is already in memory. `name` identifies it in messages and reports. Trace
  // entries without a pool get their pool from infer_pools().
  static std::shared_ptr<const Recording> create(std::string name, Snapshot snapshot);

  const std::string& name() const { return name_; }
  const Snapshot& snapshot() const { return snapshot_; }
  // The allocator's options at the time of the recording.
  const AllocatorOptions& options() const { return options_; }
  // Returns the error message about recorded settings that could not be applied; empty if all could
  // be applied. Settings with unknown names are not mentioned.
  const std::string& ignored_settings() const { return ignored_settings_; }

  // All stacks of the snapshot, numbered by content.
  const StackIndex& stacks() const { return stacks_; }
  // The number of each stack in stacks(), indexed by StackId.
  const std::vector<uint32_t>& stack_numbers() const { return stack_numbers_; }
  // Returns the frames of a stack, innermost first; empty if there is no such stack.
  std::vector<const Frame*> frames(StackId stack) const;

  // The devices of the snapshot; see devices_in(). Never empty.
  const std::vector<DeviceIndex>& devices() const { return devices_; }
  bool has_device(DeviceIndex device) const;
  // Returns the device with the longest trace. If no device has a trace, returns the device of the
  // first segment; if there is no segment either, the first device.
  DeviceIndex default_device() const;

 private:
  Recording(std::string name, Snapshot snapshot);

  std::string name_;
  Snapshot snapshot_;
  AllocatorOptions options_;
  std::string ignored_settings_;
  StackIndex stacks_;  // points into snapshot_
  std::vector<uint32_t> stack_numbers_;
  std::vector<DeviceIndex> devices_;
};

// Returns the devices for which a snapshot has a trace entry, a segment or an extent, in ascending
// order. Ignores invalid indexes (kMaxDevices and above). A snapshot without any device counts as
// an empty recording of device 0.
std::vector<DeviceIndex> devices_in(const Snapshot& snapshot);

class DeviceRecording {
 public:
  // REQUIRES: recording->has_device(device).
  DeviceRecording(std::shared_ptr<const Recording> recording, DeviceIndex device);

  const Recording& recording() const { return *recording_; }
  std::shared_ptr<const Recording> share_recording() const { return recording_; }
  const std::string& name() const { return recording_->name(); }
  const Snapshot& snapshot() const { return recording_->snapshot(); }
  const AllocatorOptions& options() const { return recording_->options(); }
  DeviceIndex device() const { return device_; }

  // Returns the trace of the device; empty if the file has only the final state.
  const std::vector<TraceEntry>& trace() const { return trace_of(snapshot(), device_); }
  bool has_history() const { return !trace().empty(); }
  const Allocations& allocations() const { return allocations_; }
  // Returns the timeline, which is computed on first use and cached.
  const Timeline& timeline() const;

  // Returns whether the trace contains a failed allocation.
  bool has_oom() const;
  // Returns the duration of the trace; unset in the cases that duration_us() lists.
  std::optional<double> seconds() const;

 private:
  struct CachedTimeline {
    std::once_flag once{};
    Timeline timeline{};
  };

  std::shared_ptr<const Recording> recording_;  // shared with the other devices' recordings
  DeviceIndex device_;
  Allocations allocations_;
  std::unique_ptr<CachedTimeline> timeline_;
};

// Selects one device of a recording; if `device` is unset, the default device. kInvalidArgument:
// the recording does not have the device; the message lists the devices that it has.
Result<DeviceRecording> select_device(std::shared_ptr<const Recording> recording,
                                      std::optional<uint64_t> device);

// Returns OK if the device has a trace, which a replay needs, and kFormat otherwise.
Status require_history(const DeviceRecording& recording);

}  // namespace ashlar
