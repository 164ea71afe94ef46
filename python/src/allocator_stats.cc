// SPDX-License-Identifier: Apache-2.0
//
// Binds the statistics, history and snapshots of an allocator.
#include <pybind11/stl.h>

#include <optional>
#include <vector>

#include "allocator.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "errors.h"
#include "format/byte_stream.h"
#include "format/snapshot_pickle.h"
#include "frames.h"
#include "gil.h"
#include "recording.h"
#include "sizes.h"
#include "texts.h"

namespace ashlar::python {
namespace {

py::object allocator_stats(const AllocatorObject& self) {
  const auto all = without_gil([&] { return self.allocator().stats().flatten(); });
  py::dict stats;
  for (const auto& [name, value] : all) stats[py::str(name)] = value;
  return py::module_::import("ashlar._display").attr("Stats")(stats);
}

RecordContext parse_stacks(const std::optional<std::string>& stacks) {
  if (!stacks) return RecordContext::kNever;
  if (*stacks == "state") return RecordContext::kState;
  if (*stacks == "alloc") return RecordContext::kAlloc;
  if (*stacks == "all") return RecordContext::kAll;
  unwrap(Status::invalid_argument(text(
      "stacks: \"", *stacks, "\" is unknown (expected \"state\", \"alloc\", \"all\" or None)")));
  return RecordContext::kNever;
}

void start_history(const AllocatorObject& self, const std::optional<std::string>& stacks,
                   const py::object& max_entries, bool native, bool clear) {
  HistoryOptions options;
  options.max_entries = number_argument(max_entries, "max_entries");
  options.context = parse_stacks(stacks);
  options.native_stacks = native;
  options.clear = clear;
  if (options.context != RecordContext::kNever) options.provider = python_frames();
  without_gil([&] { self.allocator().history().start(std::move(options)); });
}

void annotate(const AllocatorObject& self, const py::kwargs& fields) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [name, value] : fields) {
    all.emplace_back(encode_utf8(name), encode_utf8(py::str(value)));
  }
  without_gil([&] { self.allocator().history().annotate(std::move(all)); });
}

Snapshot take_snapshot(const AllocatorObject& self, bool include_traces) {
  return without_gil([&] { return self.allocator().snapshot({.include_traces = include_traces}); });
}

void save(const AllocatorObject& self, const py::object& path) {
  const std::string name = path_argument(path);
  without_gil([&] {
    const Snapshot snapshot = self.allocator().snapshot();
    try {
      save_snapshot(snapshot, name);
    } catch (const DeviceError& failure) {
      throw FileFailure(failure.status(), static_cast<int>(failure.status().code()), name);
    }
  });
}

void bind_stats(AllocatorClass& allocators) {
  allocators
      .def("stats", allocator_stats,
           "Returns the statistics by name: {\"allocated_bytes.all.peak\": ...}.")
      .def(
          "reset_peak_stats",
          [](const AllocatorObject& self) {
            without_gil([&] { self.allocator().statistics().reset_peaks(); });
          },
          "Resets peaks to the current values.")
      .def(
          "reset_total_stats",
          [](const AllocatorObject& self) {
            without_gil([&] { self.allocator().statistics().reset_totals(); });
          },
          "Resets totals to 0.");
}

}  // namespace

py::object snapshot_to_dict(const Snapshot& snapshot) {
  const std::string pickled = without_gil([&] {
    StringSink sink;
    unwrap(write_snapshot_pickle(snapshot, sink));
    return std::move(sink.text);
  });
  return py::module_::import("pickle").attr("loads")(py::bytes(pickled));
}

void bind_stats_and_history(AllocatorClass& allocators) {
  bind_stats(allocators);
  allocators
      .def("start_history", start_history, py::arg("stacks") = "all", py::kw_only(),
           py::arg("max_entries") = size_t{1} << 20, py::arg("native") = false,
           py::arg("clear") = false,
           "Records allocations and frees. stacks: \"state\" records stacks of live allocations, "
           "\"alloc\" also of allocations in the trace, \"all\" also of frees; None: no stacks. "
           "native: include C++ frames.")
      .def(
          "stop_history",
          [](const AllocatorObject& self) {
            without_gil([&] { self.allocator().history().stop(); });
          },
          "Stops recording and discards the trace.")
      .def_property_readonly(
          "is_history_on",
          [](const AllocatorObject& self) {
            return without_gil([&] { return self.allocator().history().is_recording(); });
          })
      .def("annotate", annotate, "Adds an annotation to the trace: annotate(name=\"step 7\").")
      .def(
          "snapshot",
          [](const AllocatorObject& self, bool include_traces) {
            return snapshot_to_dict(take_snapshot(self, include_traces));
          },
          py::kw_only(), py::arg("include_traces") = true,
          "Returns the allocator's state and history in the format of "
          "torch.cuda.memory._snapshot(). With the paged engine, \"ashlar\" has its views and "
          "extents.")
      .def("save_snapshot", save, py::arg("path"),
           "Writes the snapshot to a file for ashlar.load, `ashlar report` and PyTorch's viewer.")
      .def(
          "_recorded_run",
          [](const AllocatorObject& self) {
            return make_recorded_run(take_snapshot(self, true), self.shared->device());
          },
          "Returns the trace so far. Implements Allocator.recording.");
}

}  // namespace ashlar::python
