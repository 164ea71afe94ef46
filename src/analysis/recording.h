// SPDX-License-Identifier: Apache-2.0
//
// A snapshot file opened for analysis. Every command, viewer page and Python call that analyzes a
// recorded run starts here, so that all of them agree on which devices a file has and what was
// inferred about it.
//
// Recording is the whole file; DeviceRecording is one device's part of it. Both are thread safe:
// immutable, except for the timeline and other results, which are computed once, on first use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/recorded_pytorch.h"
#include "analysis/stack_index.h"
#include "analysis/timeline.h"
#include "ashlar/options.h"
#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "files/read_snapshot.h"

namespace ashlar {

// Key figures of a device, for reports that show another device.
struct DeviceSummary {
  DeviceIndex device{};
  size_t entry_count = 0;
  size_t peak_reserved_bytes = 0;
  size_t oom_count = 0;
};
// Computes the summary from the trace, without finding allocations.
DeviceSummary summarize_device(const Snapshot& snapshot, DeviceIndex device);

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

  // The version of PyTorch that made the recording, and the options that it supports.
  const RecordedPytorch& pytorch() const { return pytorch_; }

  // All stacks of the snapshot, numbered by their shown frames. All reports that group by stack use
  // these numbers. Stacks of StackDetail::kFull are numbered on first use.
  const StackIndex& stacks(StackDetail detail = StackDetail::kUserCode) const {
    return numbered(detail).index;
  }
  // The number of each stack in stacks(), indexed by StackId; see stack_number().
  const std::vector<uint32_t>& stack_numbers(StackDetail detail = StackDetail::kUserCode) const {
    return numbered(detail).numbers;
  }
  // Returns the shown frames of a stack, innermost first; empty if there is no such stack.
  std::vector<const Frame*> frames(StackId stack,
                                   StackDetail detail = StackDetail::kUserCode) const;

  // The devices of the snapshot; see devices_in(). Never empty.
  const std::vector<DeviceIndex>& devices() const { return devices_; }
  bool has_device(DeviceIndex device) const;
  // Returns the device to show by default. Devices that ran out of memory come first, then those
  // with the highest peak of reserved memory, the longest trace and the lowest index.
  DeviceIndex default_device() const;
  // Returns the devices other than `shown`, in ascending order.
  std::vector<DeviceSummary> other_devices(DeviceIndex shown) const;

 private:
  struct NumberedStacks {
    explicit NumberedStacks(StackDetail detail) : index(detail) {}
    StackIndex index;  // points into snapshot_
    std::vector<uint32_t> numbers{};
  };

  Recording(std::string name, Snapshot snapshot);
  const NumberedStacks& numbered(StackDetail detail) const;

  std::string name_;
  Snapshot snapshot_;
  AllocatorOptions options_;
  std::string ignored_settings_;
  RecordedPytorch pytorch_;
  NumberedStacks user_stacks_{StackDetail::kUserCode};
  mutable std::once_flag full_stacks_once_;
  mutable NumberedStacks full_stacks_{StackDetail::kFull};
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
  // Returns whether the trace has any entry other than frees. PyTorch writes a few frees even if
  // only the state was recorded.
  bool has_history() const;
  const Allocations& allocations() const { return allocations_; }
  // Returns the timeline, which is computed on first use and cached.
  const Timeline& timeline() const;
  // Caches the result of an analysis, keyed by its type. The first call for T returns compute();
  // later calls return the same object.
  // REQUIRES: `compute` is equivalent in all calls for T.
  template <typename T, typename Compute>
  const T& cached(Compute compute) const;

  // Returns whether the trace contains a failed allocation.
  bool has_oom() const;
  // Returns the duration of the trace; unset in the cases that duration_us() lists.
  std::optional<double> seconds() const;

 private:
  struct CachedTimeline {
    std::once_flag once{};
    Timeline timeline{};
  };
  struct CachedResult {
    std::once_flag once{};
    std::shared_ptr<const void> result{};  // sole owner; shared_ptr only for type erasure
  };
  struct ResultCache {
    std::mutex mutex;
    // `mutex` guards the map. The `once` of a CachedResult guards its result.
    std::map<std::type_index, CachedResult> results{};
  };

  CachedResult& cache_slot(std::type_index type) const;

  std::shared_ptr<const Recording> recording_;  // shared with the other devices' recordings
  DeviceIndex device_;
  Allocations allocations_;
  std::unique_ptr<CachedTimeline> timeline_;
  std::unique_ptr<ResultCache> results_;
};

template <typename T, typename Compute>
const T& DeviceRecording::cached(Compute compute) const {
  CachedResult& slot = cache_slot(typeid(T));
  std::call_once(slot.once, [&] { slot.result = std::make_shared<const T>(compute()); });
  return *static_cast<const T*>(slot.result.get());
}

// Selects one device of a recording; if `device` is unset, the default device. kInvalidArgument:
// the recording does not have the device; the message lists the devices that it has.
Result<DeviceRecording> select_device(std::shared_ptr<const Recording> recording,
                                      std::optional<uint64_t> device);

}  // namespace ashlar
