// Reading, and choosing the device.
#include "cli/recording.h"

#include <algorithm>

#include "base/text.h"
#include "config/snapshot_settings.h"
#include "files/read_snapshot.h"

namespace ashlar {

Result<Recording> read_recording(const std::string& file, std::optional<uint64_t> device) {
  Result<Snapshot> snapshot = read_snapshot(file);
  if (!snapshot.ok()) return snapshot.status();
  const auto& traces = snapshot->device_traces;
  const auto longest =
      std::max_element(traces.begin(), traces.end(),
                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (longest == traces.end() || longest->empty()) {
    return Status::format(text(file,
                               ": there is no history in this snapshot, only what was held at ",
                               "the end; record it with torch.cuda.memory._record_memory_history"));
  }
  if (device && *device >= traces.size()) {
    return Status::usage(
        text(file, ": there is no device ", *device, " in it (it has ", traces.size(), ")"));
  }
  Recording recording;
  recording.file = file;
  recording.device = DeviceIndex(device.value_or(static_cast<uint64_t>(longest - traces.begin())));
  RecordedOptions recorded = options_of(snapshot->settings);
  recording.options = std::move(recorded.options);
  recording.ignored = std::move(recorded.ignored);
  recording.snapshot = *std::move(snapshot);
  recording.allocations = find_allocations(recording.snapshot, recording.device);
  return recording;
}

}  // namespace ashlar
