// SPDX-License-Identifier: Apache-2.0
//
// Binds recordings and their analyses, whose results equal the --json output of the command line.
// The public class is in python/ashlar/_recording.py.
#include "recording.h"

#include <pybind11/stl.h>

#include <nlohmann/json.hpp>

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/replay/oom.h"
#include "analysis/replay/tune.h"
#include "analysis/report_json/annotate_json.h"
#include "analysis/report_json/diff_json.h"
#include "analysis/report_json/leaks_json.h"
#include "analysis/report_json/oom_json.h"
#include "analysis/report_json/recorded_json.h"
#include "analysis/report_json/recording_analyses.h"
#include "analysis/report_json/replay_json.h"
#include "analysis/report_json/report_json.h"
#include "analysis/report_json/stack_json.h"
#include "analysis/report_json/summary_json.h"
#include "analysis/report_json/training_json.h"
#include "analysis/report_json/tune_json.h"
#include "api/unwrap.h"
#include "as_python.h"
#include "ashlar/unique_fd.h"
#include "base/text.h"
#include "errors.h"
#include "files/read_snapshot.h"
#include "format/byte_stream.h"
#include "gil.h"
#include "interrupt.h"
#include "sizes.h"
#include "texts.h"
#include "view/self_contained_page.h"
#include "view/viewer.h"
#include "view/viewer_page.h"

namespace ashlar::python {
namespace {

using Json = nlohmann::ordered_json;

// The Python object RecordedRun. Immutable, so that any thread may use it without a lock.
struct RecordingObject {
  std::shared_ptr<const DeviceRecording> run;  // shared with running calls
};

KeepGoing keep_going_until(const std::stop_token& stop) {
  return [stop] { return !stop.stop_requested(); };
}

// Runs an analysis without the GIL. Ctrl-C ends the call and asks the analysis to stop; interpreter
// exit waits for the analysis, with a timeout.
template <typename Analysis>
py::object analysis_result(const RecordingObject& self, Analysis analyze) {
  return as_python(
      interruptible([run = self.run, analyze = std::move(analyze)](const std::stop_token& stop) {
        const InterpreterGuard guard;
        const KeepGoing keep_going = keep_going_until(stop);
        Json result = analyze(*run, keep_going);
        // An analysis that was stopped may have returned an incomplete result.
        if (!keep_going()) unwrap(Status::timeout("the analysis was cancelled"));
        return result;
      }));
}

// Called when reading has failed. Throws FileFailure if reading failed because the file cannot be
// opened.
void require_file(const std::string& path, const Status& failure) {
  if (path == "-" || !failure.is(StatusKind::kFormat)) return;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) throw FileFailure(failure, errno, path);
}

// Creates a recording of the snapshot that `open` reads.
template <typename Open>
RecordingObject load_from(std::string name, const py::object& device, Open open) {
  std::optional<uint64_t> index;
  if (!device.is_none()) index = number_argument(device, "device");
  return {interruptible(
      [name = std::move(name), index, open = std::move(open)](const std::stop_token& stop) {
        const InterpreterGuard guard;
        ReadOptions options;
        options.input.on_progress = [keep_going = keep_going_until(stop)](double) {
          return keep_going();
        };
        return make_shared_without_gil<const DeviceRecording>(
            unwrap(select_device(Recording::create(name, unwrap(open(name, options))), index)));
      })};
}

RecordingObject load(const py::object& path, const py::object& device) {
  return load_from(path_argument(path), device,
                   [](const std::string& name, const ReadOptions& options) {
                     Result<Snapshot> snapshot = read_snapshot(name, options);
                     if (!snapshot.ok()) require_file(name, snapshot.status());
                     return snapshot;
                   });
}

// Loads a snapshot from bytes. Copies the bytes, because the caller may release them after Ctrl-C,
// while the snapshot is still being read.
RecordingObject load_bytes(const py::bytes& given, const py::object& name,
                           const py::object& device) {
  auto bytes = std::make_shared<const std::string>(std::string(given));
  return load_from(
      encode_utf8(name), device, [bytes](const std::string& file_name, const ReadOptions& options) {
        return read_snapshot(file_name, std::make_unique<MemorySource>(*bytes), options);
      });
}

py::object report(const RecordingObject& self) {
  return analysis_result(self, [](const DeviceRecording& run, const KeepGoing& keep_going) {
    const Report result = unwrap(report_recording(run, keep_going));
    return report_json(run, result);
  });
}

py::object leaks(const RecordingObject& self) {
  return analysis_result(self, [](const DeviceRecording& run, const KeepGoing& keep_going) {
    if (!run.has_history()) return no_history_json(run, HistoryQuestion::kFindLeaks);
    return leaks_json(run, leaks_of(run, StackDetail::kUserCode, keep_going));
  });
}

py::object annotate_lines(const RecordingObject& self, const std::vector<py::object>& source) {
  SourceFolders folders;
  for (const py::object& folder : source) unwrap(folders.add(path_argument(folder)));
  return analysis_result(
      self, [folders = std::move(folders)](const DeviceRecording& run, const KeepGoing&) {
        return annotate_json(run, source_lines_of(run), folders);
      });
}

py::object training_summary(const RecordingObject& self) {
  return analysis_result(
      self, [](const DeviceRecording& run, const KeepGoing&) { return training_json(run); });
}

// Returns the groups of the allocations at the peak.
py::object groups_at_peak(const RecordingObject& self, const std::string& by) {
  const std::optional<GroupBy> criterion = parse_group_by(by);
  if (!criterion) {
    unwrap(Status::invalid_argument(text("by: \"", by,
                                         "\" is unknown (expected \"stack\", \"category\", "
                                         "\"phase\", \"iteration\", \"annotation\" or "
                                         "\"context\")")));
  }
  return analysis_result(self, [criterion](const DeviceRecording& run, const KeepGoing&) {
    return groups_json(group_allocations(run, allocations_at_peak(run), *criterion));
  });
}

// Returns the stacks at the peak with all frames. The Python class groups them by the user's
// expressions.
py::object full_stacks(const RecordingObject& self) {
  return analysis_result(self, [](const DeviceRecording& run, const KeepGoing&) {
    const Recording& recording = run.recording();
    Json stacks = Json::array();
    for (const StackTotal& use : group_by_stack(run.allocations(), allocations_at_peak(run),
                                                recording.stack_numbers(StackDetail::kFull))) {
      const StackIndex& index = recording.stacks(StackDetail::kFull);
      stacks.push_back({{"bytes", use.bytes},
                        {"count", use.count},
                        {"stack", stack_json(index.frames(use.stack))}});
    }
    return stacks;
  });
}

py::object diff(const RecordingObject& self, const RecordingObject& other, const std::string& at) {
  if (at != "end" && at != "peak") {
    unwrap(Status::invalid_argument(
        text("at: \"", at, "\" is unknown (expected \"end\" or \"peak\")")));
  }
  const std::shared_ptr<const DeviceRecording> compared = other.run;
  const ComparisonPoint moment = at == "end" ? ComparisonPoint::kEnd : ComparisonPoint::kPeak;
  return analysis_result(
      self, [compared, moment](const DeviceRecording& base, const KeepGoing& keep_going) {
        return diff_json(compare_runs(base, *compared, {.at = moment, .keep_going = keep_going}));
      });
}

// Converts a limit argument: a size or None. Throws InvalidArgument for 0.
std::optional<size_t> limit_argument(const py::object& limit, const char* argument) {
  if (limit.is_none()) return std::nullopt;
  const size_t bytes = size_argument(limit, argument);
  if (bytes == 0)
    unwrap(
        Status::invalid_argument(text(argument, ": 0 is not a valid limit (expected at least 1)")));
  return bytes;
}

py::object replay_run(const RecordingObject& self, const ReplaySettings& settings,
                      const py::object& capacity, const py::object& cap) {
  const std::optional<size_t> capacity_bytes = limit_argument(capacity, "capacity");
  const std::optional<size_t> cap_bytes = limit_argument(cap, "cap");
  return analysis_result(self, [settings, capacity_bytes, cap_bytes](const DeviceRecording& run,
                                                                     const KeepGoing& keep_going) {
    if (!run.has_history()) return no_history_json(run, HistoryQuestion::kReplayRun);
    const auto started = std::chrono::steady_clock::now();
    ReplayOptions options = unwrap(replay_options(settings, run));
    const ReplayLimits limits = unwrap(find_limits(run, capacity_bytes, cap_bytes, keep_going));
    options.capacity_bytes = limits.capacity_bytes;
    options.cap_bytes = limits.cap_bytes;
    options.keep_going = keep_going;
    const ReplayResult result = unwrap(replay(run.snapshot(), run.allocations(), options));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
    return replay_json({run, options, result, limits.recorded, seconds.count()});
  });
}

struct TuneLimits {
  std::optional<size_t> capacity_bytes{};
  std::optional<size_t> cap_bytes{};
  size_t jobs = 0;
};

TuneLimits parse_limits(const py::object& capacity, const py::object& cap, const py::object& jobs) {
  return {limit_argument(capacity, "capacity"), limit_argument(cap, "cap"),
          number_argument(jobs, "jobs")};
}

TuneOptions tune_options(const DeviceRecording& run, const TuneLimits& limits,
                         const KeepGoing& keep_going) {
  const ReplayLimits found =
      unwrap(find_limits(run, limits.capacity_bytes, limits.cap_bytes, keep_going));
  TuneOptions options = ashlar::tune_options(run, found);
  options.worker_count = limits.jobs;
  options.keep_going = keep_going;
  return options;
}

py::object tune_run(const RecordingObject& self, const TuneLimits& limits, bool min_capacity) {
  return analysis_result(
      self, [limits, min_capacity](const DeviceRecording& run, const KeepGoing& keep_going) {
        if (!run.has_history()) return no_history_json(run, HistoryQuestion::kTuneSettings);
        TuneOptions options = tune_options(run, limits, keep_going);
        options.find_min_capacity = min_capacity;
        const TuneResult result = unwrap(tune(run.snapshot(), run.allocations(), options));
        return tune_json({run, options, result});
      });
}

py::object oom(const RecordingObject& self, const TuneLimits& limits) {
  return analysis_result(self, [limits](const DeviceRecording& run, const KeepGoing& keep_going) {
    if (!run.has_history()) return no_history_json(run, HistoryQuestion::kExplainFailure);
    const TuneOptions options = tune_options(run, limits, keep_going);
    std::optional<OomLimit> given_limit;
    if (limits.capacity_bytes || limits.cap_bytes) given_limit = limit_of(options);
    return oom_json(run, unwrap(explain_oom(run.snapshot(), run.allocations(), options)),
                    given_limit);
  });
}

// Makes analyses end when `stop` is requested.
JsonAnalyses stoppable(JsonAnalyses analyses, const std::stop_token& stop) {
  for (auto& [name, analysis] : analyses.by_name) {
    analysis.compute = [stop, compute = analysis.compute](const DeviceRecording& run,
                                                          const KeepGoing& keep_going) {
      return compute(run, [&] { return keep_going() && !stop.stop_requested(); });
    };
  }
  return analyses;
}

// Returns the HTML page of the viewer with several recordings. The page initially shows the first
// recording.
py::str viewer_page(const std::vector<RecordingObject>& recordings) {
  std::vector<std::shared_ptr<const DeviceRecording>> runs;
  for (const RecordingObject& each : recordings) runs.push_back(each.run);
  return decode_utf8(interruptible([runs = std::move(runs)](const std::stop_token& stop) {
    const InterpreterGuard guard;
    const std::string page = view::embedded_viewer_page();
    if (page.empty()) unwrap(Status::unsupported(view::kNoViewerPage));
    view::Viewer viewer(text("ashlar ", ASHLAR_VERSION), stoppable(recording_analyses(), stop));
    for (const std::shared_ptr<const DeviceRecording>& run : runs) {
      unwrap(viewer.add(run->share_recording()));
    }
    return unwrap(view::self_contained_page(viewer, page));
  }));
}

void bind_replays(py::class_<RecordingObject>& runs) {
  runs.def(
          "replay",
          [](const RecordingObject& self, std::optional<std::string> engine,
             std::optional<std::string> conf, const py::object& capacity, const py::object& cap) {
            return replay_run(self, {std::move(engine), std::move(conf)}, capacity, cap);
          },
          py::kw_only(), py::arg("engine") = py::none(), py::arg("conf") = py::none(),
          py::arg("capacity") = py::none(), py::arg("cap") = py::none())
      .def(
          "tune",
          [](const RecordingObject& self, const py::object& capacity, const py::object& cap,
             const py::object& jobs, bool min_capacity) {
            return tune_run(self, parse_limits(capacity, cap, jobs), min_capacity);
          },
          py::kw_only(), py::arg("capacity") = py::none(), py::arg("cap") = py::none(),
          py::arg("jobs") = 0, py::arg("min_capacity") = false)
      .def(
          "oom",
          [](const RecordingObject& self, const py::object& capacity, const py::object& cap,
             const py::object& jobs) { return oom(self, parse_limits(capacity, cap, jobs)); },
          py::kw_only(), py::arg("capacity") = py::none(), py::arg("cap") = py::none(),
          py::arg("jobs") = 0);
}

}  // namespace

py::object make_recorded_run(Snapshot snapshot, const DeviceRef& device) {
  return py::cast(RecordingObject{without_gil([&] {
    return make_shared_without_gil<const DeviceRecording>(unwrap(select_device(
        Recording::create(device.name(), std::move(snapshot)), device.index().value())));
  })});
}

void bind_recordings(py::module_& module) {
  py::class_<RecordingObject> runs(module, "RecordedRun", "Implements ashlar.Recording.");
  runs.def("summary",
           [](const RecordingObject& self) {
             return analysis_result(self, [](const DeviceRecording& run, const KeepGoing&) {
               return summary_json(run);
             });
           })
      .def("report", report)
      .def("leaks", leaks)
      .def("annotate", annotate_lines, py::kw_only(), py::arg("source") = py::tuple())
      .def("training", training_summary)
      .def("groups", groups_at_peak, py::arg("by"))
      .def("full_stacks", full_stacks)
      .def("diff", diff, py::arg("other"), py::kw_only(), py::arg("at") = "end");
  bind_replays(runs);
  module.def("load", load, py::arg("path"), py::kw_only(), py::arg("device") = py::none(),
             "Reads a snapshot, plain or compressed.");
  module.def("_load_bytes", load_bytes, py::arg("data"), py::kw_only(), py::arg("name") = "bytes",
             py::arg("device") = py::none(),
             "Reads a snapshot from bytes. name: shown in reports.");
  module.def("_viewer_page", viewer_page, py::arg("runs"),
             "Returns one self-contained HTML file that shows the runs.");
}

}  // namespace ashlar::python
