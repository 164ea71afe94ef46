// Reading, choosing the device, and the plot of it all.
#include "cli/recorded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "analysis/infer_pools.h"
#include "base/units.h"
#include "cli/plot.h"
#include "cli/stack_text.h"
#include "cli/table.h"
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
  if (known.empty()) return Status::usage("--device: the file knows nothing of any device");
  return Status::usage(
      fmt::format("--device: the file knows nothing of device {} (expected one of {})", *wanted,
                  fmt::join(known, ", ")));
}

}  // namespace

Result<RecordedRun> read_run(const std::string& file, std::optional<uint64_t> device) {
  Result<Snapshot> snapshot = read_snapshot(file);
  if (!snapshot.ok()) return snapshot.status();
  const Result<DeviceIndex> chosen = choose_device(*snapshot, device);
  if (!chosen.ok()) return chosen.status();
  RecordedRun run;
  run.file = file;
  run.snapshot = *std::move(snapshot);
  run.device = *chosen;
  infer_pools(run.snapshot, run.device);
  run.allocations = find_allocations(run.snapshot, run.device);
  run.timeline = make_timeline(run.snapshot, run.device, run.allocations);
  RecordedOptions recorded = options_of(run.snapshot.settings);
  run.options = std::move(recorded.options);
  run.ignored = std::move(recorded.ignored);
  return run;
}

Result<RecordedRun> read_history(const std::string& file, std::optional<uint64_t> device,
                                 const Session& session) {
  Result<RecordedRun> run = read_run(file, device);
  if (!run.ok()) return run;
  if (run->trace().empty()) {
    return Status::format(
        fmt::format("{}: there is no history of device {} in this snapshot, only what was held at "
                    "the end; record it with torch.cuda.memory._record_memory_history",
                    file, run->device.value()));
  }
  if (!run->ignored.empty()) {
    session.console.complain("settings of the recording are left out: " + run->ignored);
  }
  return run;
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

std::string title_of(const RecordedRun& run) {
  std::string title = fmt::format("{}, device {}: ", printable(run.file), run.device.value());
  if (run.trace().empty()) return title + "no trace, only what was there at the end\n";
  title += fmt::format("{} entries", group_digits(run.trace().size()));
  if (const std::optional<double> seconds = run.seconds()) {
    title += fmt::format(" over {:.2f} s", *seconds);
  }
  if (run.allocations.before_count > 0) {
    title += fmt::format("; {} allocations were there before",
                         group_digits(run.allocations.before_count));
  }
  return title + "\n";
}

std::string plot_of(const RecordedRun& run, const Terminal& terminal) {
  if (run.trace().empty()) return "";
  const Timeline& timeline = run.timeline;
  const size_t columns = plot_columns(terminal);
  Plot plot;
  plot.series = {{.name = "requested",
                  .style = PlotStyle::kArea,
                  .columns = downsample(timeline, Quantity::kRequested, columns)},
                 {.name = "reserved",
                  .style = PlotStyle::kLine,
                  .columns = downsample(timeline, Quantity::kReserved, columns)}};
  plot.mark = {.column = column_of(timeline, timeline.requested.entry, columns),
               .text = fmt::format("most requested: {}", format_bytes(timeline.requested.bytes))};
  plot.begin_text = "entry 0";
  plot.end_text = fmt::format("entry {}", group_digits(run.trace().size() - 1));
  return draw(plot, terminal);
}

}  // namespace ashlar
