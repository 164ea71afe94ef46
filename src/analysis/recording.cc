// SPDX-License-Identifier: Apache-2.0
//
// Opens a snapshot: infers missing pools, parses the settings, and numbers the stacks.
#include "analysis/recording.h"

#include <algorithm>
#include <set>
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
  for (const DeviceIndex device : devices_) infer_pools(snapshot_, device);
  RecordedOptions recorded = options_of(snapshot_.settings);
  options_ = std::move(recorded.options);
  ignored_settings_ = std::move(recorded.ignored);
  stack_numbers_ = stacks_.add(snapshot_.tables);
}

std::vector<const Frame*> Recording::frames(StackId stack) const {
  return stacks_.frames(stack_number(stack_numbers_, stack));
}

bool Recording::has_device(DeviceIndex device) const {
  return std::binary_search(devices_.begin(), devices_.end(), device);
}

DeviceIndex Recording::default_device() const {
  const auto entry_count = [this](DeviceIndex device) {
    return trace_of(snapshot_, device).size();
  };
  const auto longest = std::max_element(
      devices_.begin(), devices_.end(),
      [&](DeviceIndex left, DeviceIndex right) { return entry_count(left) < entry_count(right); });
  if (entry_count(*longest) > 0) return *longest;
  const auto& segments = snapshot_.segments;
  const auto first =
      std::find_if(segments.begin(), segments.end(),
                   [this](const SnapshotSegment& segment) { return has_device(segment.device); });
  return first == segments.end() ? devices_.front() : first->device;
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
      timeline_(std::make_unique<CachedTimeline>()) {
  ASHLAR_CHECK(recording_->has_device(device));
}

const Timeline& DeviceRecording::timeline() const {
  std::call_once(timeline_->once, [this] {
    timeline_->timeline = make_timeline(snapshot(), device_, allocations_);
  });
  return timeline_->timeline;
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

Status require_history(const DeviceRecording& recording) {
  if (recording.has_history()) return {};
  return Status::format(text(recording.name(), ": the snapshot has no history of device ",
                             recording.device(),
                             ", only its final state; record one with "
                             "torch.cuda.memory._record_memory_history"));
}

}  // namespace ashlar
