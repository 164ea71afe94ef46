// SPDX-License-Identifier: Apache-2.0
//
// Opens a snapshot: infers missing pools, parses the settings, and numbers the stacks.
#include "analysis/recording.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/infer_pools.h"
#include "base/check.h"
#include "base/text.h"
#include "config/snapshot_settings.h"
#include "format/value_store.h"

namespace ashlar {

Result<std::shared_ptr<const Recording>> Recording::open(const std::string& path,
                                                         const ReadOptions& options) {
  Result<Snapshot> snapshot = read_snapshot(path, options);
  if (!snapshot.ok()) return snapshot.status();
  return create(path, *std::move(snapshot));
}

std::shared_ptr<const Recording> Recording::create(std::string name, Snapshot snapshot) {
  // The constructor is private, so std::make_shared cannot call it.
  return std::shared_ptr<const Recording>(new Recording(std::move(name), std::move(snapshot)));
}

Recording::Recording(std::string name, Snapshot snapshot)
    : name_(std::move(name)), snapshot_(std::move(snapshot)), devices_(devices_in(snapshot_)) {
  RecordedOptions recorded = options_of(snapshot_.settings);
  options_ = std::move(recorded.options);
  ignored_settings_ = std::move(recorded.ignored);
  pytorch_ = find_pytorch(snapshot_, options_);
  for (const DeviceIndex device : devices_) infer_pools(snapshot_, device);
  user_stacks_.numbers = user_stacks_.index.add(snapshot_.tables);
}

std::vector<const Frame*> Recording::frames(StackId stack, StackDetail detail) const {
  return stacks(detail).frames(stack_number(stack_numbers(detail), stack));
}

const Recording::NumberedStacks& Recording::numbered(StackDetail detail) const {
  if (detail == StackDetail::kUserCode) return user_stacks_;
  std::call_once(full_stacks_once_,
                 [this] { full_stacks_.numbers = full_stacks_.index.add(snapshot_.tables); });
  return full_stacks_;
}

bool Recording::has_device(DeviceIndex device) const {
  return std::binary_search(devices_.begin(), devices_.end(), device);
}

DeviceIndex Recording::default_device() const {
  if (devices_.size() == 1) return devices_.front();
  const auto rank = [](const DeviceSummary& each) {
    return std::tuple(each.oom_count > 0, each.peak_reserved_bytes, each.entry_count);
  };
  DeviceSummary best = summarize_device(snapshot_, devices_.front());
  for (const DeviceIndex device : devices_) {
    const DeviceSummary each = summarize_device(snapshot_, device);
    if (rank(each) > rank(best)) best = each;
  }
  return best.device;
}

std::vector<DeviceSummary> Recording::other_devices(DeviceIndex shown) const {
  std::vector<DeviceSummary> others;
  for (const DeviceIndex device : devices_) {
    if (device != shown) others.push_back(summarize_device(snapshot_, device));
  }
  return others;
}

DeviceSummary summarize_device(const Snapshot& snapshot, DeviceIndex device) {
  const std::vector<TraceEntry>& trace = trace_of(snapshot, device);
  const auto ooms = std::count_if(trace.begin(), trace.end(), [](const TraceEntry& entry) {
    return entry.action == TraceAction::kOom;
  });
  return {.device = device,
          .entry_count = trace.size(),
          .peak_reserved_bytes = peak_reserved_bytes_of(snapshot, device),
          .oom_count = static_cast<size_t>(ooms)};
}

std::vector<DeviceIndex> devices_in(const Snapshot& snapshot) {
  std::set<DeviceIndex> devices;
  for (uint64_t i = 0; i < snapshot.device_traces.size(); ++i) {
    if (!snapshot.device_traces[i].empty()) devices.insert(DeviceIndex(i));
  }
  for (const SnapshotSegment& segment : snapshot.segments) devices.insert(segment.device);
  for (const SnapshotExtent& extent : snapshot.extents) devices.insert(extent.device);
  // The parsers reject device indexes that are out of range, but a snapshot that was not read from
  // a file may contain some. Drops them, because traces are indexed by device.
  devices.erase(devices.lower_bound(DeviceIndex(kMaxDevices)), devices.end());
  if (devices.empty()) devices.insert(DeviceIndex());
  return {devices.begin(), devices.end()};
}

DeviceRecording::DeviceRecording(std::shared_ptr<const Recording> recording, DeviceIndex device)
    : recording_(std::move(recording)),
      device_(device),
      allocations_(find_allocations(recording_->snapshot(), device)),
      timeline_(std::make_unique<CachedTimeline>()),
      results_(std::make_unique<ResultCache>()) {
  ASHLAR_CHECK(recording_->has_device(device));
}

namespace {

// Makes reports of a recording without a history explain the final state, not the state before the
// few frees that its trace may contain.
void move_peaks_to_end(Timeline& timeline) {
  if (timeline.points.empty()) return;
  const auto last = static_cast<uint32_t>(timeline.points.size() - 1);
  timeline.requested_peak = {.bytes = timeline.last().requested_bytes(), .entry = last};
  timeline.lower_bound = timeline.requested_peak;
  timeline.reserved_peak = {.bytes = timeline.last().reserved_bytes, .entry = last};
  timeline.last_growth.reset();
}

}  // namespace

const Timeline& DeviceRecording::timeline() const {
  std::call_once(timeline_->once, [this] {
    timeline_->timeline = make_timeline(snapshot(), device_, allocations_);
    if (!has_history()) move_peaks_to_end(timeline_->timeline);
  });
  return timeline_->timeline;
}

DeviceRecording::CachedResult& DeviceRecording::cache_slot(std::type_index type) const {
  const std::lock_guard lock(results_->mutex);
  return results_->results[type];  // nodes of a map keep their addresses
}

bool DeviceRecording::has_history() const {
  return std::any_of(trace().begin(), trace().end(), [](const TraceEntry& entry) {
    return entry.action != TraceAction::kFreeRequested &&
           entry.action != TraceAction::kFreeCompleted;
  });
}

bool DeviceRecording::has_oom() const {
  return std::any_of(trace().begin(), trace().end(),
                     [](const TraceEntry& entry) { return entry.action == TraceAction::kOom; });
}

std::optional<double> DeviceRecording::seconds() const {
  const std::optional<double> us = duration_us(trace());
  return us ? std::optional(*us * 1e-6) : std::nullopt;
}

Result<DeviceRecording> select_device(std::shared_ptr<const Recording> recording,
                                      std::optional<uint64_t> device) {
  const DeviceIndex chosen = device ? DeviceIndex(*device) : recording->default_device();
  if (recording->has_device(chosen)) return DeviceRecording(std::move(recording), chosen);
  std::string known;
  for (const DeviceIndex each : recording->devices()) {
    known += text(known.empty() ? "" : ", ", each.value());
  }
  return Status::invalid_argument(
      text("the file has no data of device ", chosen.value(), " (expected one of ", known, ")"));
}

}  // namespace ashlar
