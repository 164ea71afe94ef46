// A recorded run, and its answers: those that the tool prints with --json, as dicts and lists.
// python/ashlar/_recording.py makes a class for people of it.
#include "recording.h"

#include <pybind11/stl.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <optional>
#include <string>

#include "analysis/oom.h"
#include "analysis/tune.h"
#include "answers/diff_answer.h"
#include "answers/leaks_answer.h"
#include "answers/oom_answer.h"
#include "answers/recorded_run.h"
#include "answers/replay_answer.h"
#include "answers/report_answer.h"
#include "answers/summary_answer.h"
#include "answers/tune_answer.h"
#include "api/unwrap.h"
#include "as_python.h"
#include "base/text.h"
#include "gil.h"
#include "sizes.h"

namespace ashlar::python {
namespace {

using Json = nlohmann::ordered_json;

// Constant once it is made, so that any thread may ask without a lock.
struct RunUser {
  std::shared_ptr<const RecordedRun> run;  // shared with calls that other threads make of it
};

// Asks without the GIL.
template <typename Ask>
py::object answer_of(const RunUser& user, Ask ask) {
  const std::shared_ptr<const RecordedRun> run = user.run;
  return as_python(without_gil([&] { return Json(ask(*run)); }));
}

RunUser load(const py::object& path, std::optional<uint64_t> device) {
  const std::string file = py::module_::import("os").attr("fsdecode")(path).cast<std::string>();
  return {without_gil(
      [&] { return make_shared_without_gil<const RecordedRun>(unwrap(load_run(file, device))); })};
}

py::object report(const RunUser& user) {
  return answer_of(user, [](const RecordedRun& run) {
    unwrap(require_history(run));
    const Report made = unwrap(report_on(run));
    return report_answer(run, made, users_at_peak(run, made));
  });
}

py::object leaks(const RunUser& user) {
  return answer_of(user, [](const RecordedRun& run) {
    StackIndex stacks;
    const std::vector<uint32_t> numbers = stacks.add(run.snapshot.tables);
    return leaks_answer(run, find_leaks(run.trace(), run.allocations, numbers), stacks);
  });
}

py::object diff(const RunUser& user, const RunUser& other, const std::string& at) {
  if (at != "end" && at != "peak") {
    unwrap(Status::usage(text("at: \"", at, "\" is unknown (expected \"end\" or \"peak\")")));
  }
  const std::shared_ptr<const RecordedRun> now = other.run;
  return answer_of(user, [&](const RecordedRun& base) {
    return diff_answer(
        compare_runs(base, *now, at == "end" ? ComparedAt::kEnd : ComparedAt::kPeak));
  });
}

// Limits as Python says them: bytes or text, or None.
std::optional<size_t> limit_of(const py::object& limit, const char* argument) {
  if (limit.is_none()) return std::nullopt;
  const size_t bytes = bytes_of(limit, argument);
  if (bytes == 0) unwrap(Status::usage(text(argument, ": 0 is no limit (expected more)")));
  return bytes;
}

py::object replay_run(const RunUser& user, const ReplaySettings& settings,
                      const py::object& capacity, const py::object& cap) {
  const std::optional<size_t> capacity_bytes = limit_of(capacity, "capacity");
  const std::optional<size_t> cap_bytes = limit_of(cap, "cap");
  return answer_of(user, [&](const RecordedRun& run) {
    unwrap(require_history(run));
    const auto started = std::chrono::steady_clock::now();
    ReplayOptions options = unwrap(replay_options(settings, run));
    if (capacity_bytes) options.capacity_bytes = *capacity_bytes;
    options.cap_bytes = cap_bytes;
    const ReplayResult result = unwrap(replay(run.snapshot, run.allocations, options));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
    return replay_answer({run, options, result, seconds.count()});
  });
}

struct TuneWish {
  std::optional<size_t> capacity_bytes{};
  std::optional<size_t> cap_bytes{};
  size_t jobs = 0;
};

TuneOptions tune_options(const RecordedRun& run, const TuneWish& wish) {
  unwrap(require_history(run));
  TuneOptions options;
  options.recorded = run.options;
  options.device = run.device;
  options.capacity_bytes =
      wish.capacity_bytes.value_or(assumed_capacity_bytes(run.snapshot, run.device));
  options.cap_bytes = wish.cap_bytes;
  options.worker_count = wish.jobs;
  return options;
}

py::object tune_run(const RunUser& user, const TuneWish& wish, bool min_capacity) {
  return answer_of(user, [&](const RecordedRun& run) {
    TuneOptions options = tune_options(run, wish);
    options.find_min_capacity = min_capacity;
    const TuneResult result = unwrap(tune(run.snapshot, run.allocations, options));
    return tune_answer({run, options, result});
  });
}

py::object oom(const RunUser& user, const TuneWish& wish) {
  return answer_of(user, [&](const RecordedRun& run) {
    const OomQuestion question = {.replaying = tune_options(run, wish),
                                  .is_limit_given = wish.capacity_bytes || wish.cap_bytes};
    return oom_answer(run, unwrap(explain_oom(run.snapshot, run.allocations, question)));
  });
}

void bind_replays(py::class_<RunUser>& runs) {
  runs.def(
          "replay",
          [](const RunUser& user, std::optional<std::string> engine,
             std::optional<std::string> conf, const py::object& capacity, const py::object& cap) {
            return replay_run(user, {std::move(engine), std::move(conf)}, capacity, cap);
          },
          py::kw_only(), py::arg("engine") = py::none(), py::arg("conf") = py::none(),
          py::arg("capacity") = py::none(), py::arg("cap") = py::none())
      .def(
          "tune",
          [](const RunUser& user, const py::object& capacity, const py::object& cap, size_t jobs,
             bool min_capacity) {
            return tune_run(user, {limit_of(capacity, "capacity"), limit_of(cap, "cap"), jobs},
                            min_capacity);
          },
          py::kw_only(), py::arg("capacity") = py::none(), py::arg("cap") = py::none(),
          py::arg("jobs") = 0, py::arg("min_capacity") = false)
      .def(
          "oom",
          [](const RunUser& user, const py::object& capacity, const py::object& cap, size_t jobs) {
            return oom(user, {limit_of(capacity, "capacity"), limit_of(cap, "cap"), jobs});
          },
          py::kw_only(), py::arg("capacity") = py::none(), py::arg("cap") = py::none(),
          py::arg("jobs") = 0);
}

}  // namespace

py::object recorded_run_of(Snapshot snapshot, const DeviceUse& device) {
  return py::cast(RunUser{without_gil([&] {
    return make_shared_without_gil<const RecordedRun>(
        unwrap(run_of(std::move(snapshot), device.name(), device.index().value())));
  })});
}

void bind_recordings(py::module_& module) {
  py::class_<RunUser> runs(module, "RecordedRun", "What ashlar.Recording asks.");
  runs.def("summary", [](const RunUser& user) { return answer_of(user, summary_answer); })
      .def("report", report)
      .def("leaks", leaks)
      .def("diff", diff, py::arg("other"), py::kw_only(), py::arg("at") = "end");
  bind_replays(runs);
  module.def("load", load, py::arg("path"), py::kw_only(), py::arg("device") = py::none(),
             "Reads a snapshot, plain or compressed.");
}

}  // namespace ashlar::python
