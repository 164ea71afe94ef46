// SPDX-License-Identifier: Apache-2.0
//
// Pools are found before anybody counts by them.
#include "view/recording.h"

#include <set>

#include "analysis/infer_pools.h"
#include "config/snapshot_settings.h"

namespace ashlar::view {
namespace {

std::set<DeviceIndex> devices_in(const Snapshot& snapshot) {
  std::set<DeviceIndex> devices;
  for (uint64_t i = 0; i < snapshot.device_traces.size(); ++i) {
    if (!snapshot.device_traces[i].empty()) devices.insert(DeviceIndex(i));
  }
  // A number far beyond any device is nonsense, and would have to be counted up to.
  constexpr uint64_t kMostDevices = 4096;
  const auto add = [&](const auto& all) {
    for (const auto& each : all) {
      if (each.device.value() < kMostDevices) devices.insert(each.device);
    }
  };
  add(snapshot.segments);
  add(snapshot.extents);
  if (devices.empty()) devices.insert(DeviceIndex());
  return devices;
}

}  // namespace

std::shared_ptr<const Recording> make_recording(std::string name, Snapshot snapshot) {
  auto recording = std::make_shared<Recording>();
  recording->name = std::move(name);
  recording->snapshot = std::move(snapshot);
  std::vector<std::vector<TraceEntry>>& traces = recording->snapshot.device_traces;
  for (const DeviceIndex device : devices_in(recording->snapshot)) {
    if (traces.size() <= device.value()) traces.resize(device.value() + 1);
    std::vector<TraceEntry>& trace = traces[device.value()];
    recording->devices.push_back(device);
    recording->has_history.push_back(!trace.empty());
    if (trace.empty()) {
      TraceEntry only;
      only.action = TraceAction::kSnapshot;
      only.has_time = false;
      only.device = device;
      trace.push_back(only);
    }
    infer_pools(recording->snapshot, device);
  }
  RecordedOptions recorded = options_of(recording->snapshot.settings);
  recording->options = std::move(recorded.options);
  recording->ignored = std::move(recorded.ignored);
  recording->stack_numbers = recording->stacks.add(recording->snapshot.tables);
  return recording;
}

}  // namespace ashlar::view
