// SPDX-License-Identifier: Apache-2.0
//
// Reading, and choosing the device.
#include "answers/recorded_run.h"

#include <algorithm>
#include <set>

#include "analysis/infer_pools.h"
#include "base/text.h"
#include "config/snapshot_settings.h"
#include "files/read_snapshot.h"

namespace ashlar {
namespace {

std::set<uint64_t> devices_in(const Snapshot& snapshot) {
  std::set<uint64_t> devices;
  for (uint64_t i = 0; i < snapshot.device_traces.size(); ++i) {
    if (!snapshot.device_traces[i].empty()) devices.insert(i);
  }
  for (const SnapshotSegment& segment : snapshot.segments) devices.insert(segment.device.value());
  return devices;
}

Result<DeviceIndex> choose_device(const Snapshot& snapshot, std::optional<uint64_t> wanted) {
  if (!wanted) return busiest_device(snapshot);
  const std::set<uint64_t> known = devices_in(snapshot);
  if (known.contains(*wanted)) return DeviceIndex(*wanted);
  if (known.empty()) return Status::invalid_argument("the file knows nothing of any device");
  std::string names;
  for (uint64_t each : known) names += text(names.empty() ? "" : ", ", each);
  return Status::invalid_argument(
      text("the file knows nothing of device ", *wanted, " (expected one of ", names, ")"));
}

}  // namespace

Result<RecordedRun> load_run(const std::string& file, std::optional<uint64_t> device) {
  Result<Snapshot> snapshot = read_snapshot(file);
  if (!snapshot.ok()) return snapshot.status();
  return run_of(*std::move(snapshot), file, device);
}

Result<RecordedRun> run_of(Snapshot snapshot, const std::string& name,
                           std::optional<uint64_t> device) {
  const Result<DeviceIndex> chosen = choose_device(snapshot, device);
  if (!chosen.ok()) return chosen.status();
  RecordedRun run;
  run.file = name;
  run.snapshot = std::move(snapshot);
  run.device = *chosen;
  infer_pools(run.snapshot, run.device);
  run.allocations = find_allocations(run.snapshot, run.device);
  run.timeline = make_timeline(run.snapshot, run.device, run.allocations);
  RecordedOptions recorded = options_of(run.snapshot.settings);
  run.options = std::move(recorded.options);
  run.ignored = std::move(recorded.ignored);
  return run;
}

Status require_history(const RecordedRun& run) {
  if (!run.trace().empty()) return {};
  return Status::format(text(run.file, ": there is no history of device ", run.device,
                             " in this snapshot, only what was held at the end; record it with "
                             "torch.cuda.memory._record_memory_history"));
}

bool RecordedRun::has_oom() const {
  const std::vector<TraceEntry>& entries = trace();
  return std::any_of(entries.begin(), entries.end(),
                     [](const TraceEntry& entry) { return entry.action == TraceAction::kOom; });
}

std::optional<double> RecordedRun::seconds() const {
  const std::optional<double> us = duration_us(trace());
  return us ? std::optional(*us * 1e-6) : std::nullopt;
}

}  // namespace ashlar
