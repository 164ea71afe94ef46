// SPDX-License-Identifier: Apache-2.0
//
// Compares two recordings, and converts the result to JSON.
#include "analysis/report_json/diff_json.h"

#include <nlohmann/json.hpp>

#include <optional>

#include "analysis/report_json/recorded_json.h"
#include "analysis/report_json/stack_json.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

std::vector<uint32_t> present_in(const DeviceRecording& run, ComparisonPoint at) {
  std::optional<uint32_t> entry = run.timeline().reserved_peak.entry;
  if (at == ComparisonPoint::kEnd) {
    const size_t count = run.trace().size();
    entry = count == 0 ? std::nullopt : std::optional(static_cast<uint32_t>(count - 1));
  }
  return present_at(run.allocations(), entry);
}

Json side_as_json(const ComparedSide& side) {
  return {{"file", side.run.name()},
          {"device", side.run.device().value()},
          {"entries", side.run.trace().size()},
          {"bytes", side.bytes()},
          {"count", side.selected.size()},
          {"recorded", recorded_json(side.run)}};
}

Json row_as_json(const DiffRow& row) {
  return {{"difference_bytes", row.difference()},
          {"base_bytes", row.base_bytes},
          {"base_count", row.base_count},
          {"new_bytes", row.new_bytes},
          {"new_count", row.new_count}};
}

}  // namespace

size_t ComparedSide::bytes() const {
  size_t sum = 0;
  for (uint32_t id : selected) sum += run.allocations().all[id].bytes;
  return sum;
}

ComparedRuns compare_runs(const DeviceRecording& base, const DeviceRecording& now,
                          const ComparisonOptions& options) {
  ComparedRuns compared{.at = options.at,
                        .base = {.run = base, .selected = present_in(base, options.at)},
                        .now = {.run = now, .selected = present_in(now, options.at)},
                        .stacks = StackIndex(options.stacks)};
  compared.base.stack_numbers = compared.stacks.add(base.snapshot().tables);
  compared.now.stack_numbers = compared.stacks.add(now.snapshot().tables);
  compared.diff =
      make_diff(compared.base.as_diff_side(), compared.now.as_diff_side(), options.keep_going);
  return compared;
}

Json diff_json(const ComparedRuns& compared) {
  Json by_stack = Json::array();
  for (const DiffRow& row : compared.diff.by_stack) {
    by_stack.push_back(row_as_json(row));
    put_stack(by_stack.back(), compared.stacks, static_cast<uint32_t>(row.key));
  }
  Json by_size_class = Json::array();
  for (const DiffRow& row : compared.diff.by_size_class) {
    by_size_class.push_back(row_as_json(row));
    by_size_class.back()["size_class_bytes"] = size_t{1} << row.key;
  }
  Json by_stream = Json::array();
  for (const DiffRow& row : compared.diff.by_stream) {
    by_stream.push_back(row_as_json(row));
    by_stream.back()["stream"] = row.key;
  }
  return {{"at", compared.at == ComparisonPoint::kEnd ? "end" : "peak"},
          {"base", side_as_json(compared.base)},
          {"new", side_as_json(compared.now)},
          {"difference_bytes", static_cast<int64_t>(compared.now.bytes() - compared.base.bytes())},
          {"by_stack", by_stack},
          {"by_size_class", by_size_class},
          {"by_stream", by_stream}};
}

}  // namespace ashlar
