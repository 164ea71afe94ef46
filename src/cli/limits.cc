// SPDX-License-Identifier: Apache-2.0
//
// Reading them; what is not given is assumed.
#include "cli/limits.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "analysis/replay/replay.h"
#include "base/units.h"

namespace ashlar {
namespace {

Result<std::optional<size_t>> size_of(const std::optional<std::string>& text,
                                      std::string_view option) {
  if (!text) return std::optional<size_t>();
  const Result<size_t> bytes = parse_bytes(*text);
  if (bytes.ok() && *bytes > 0) return std::optional<size_t>(*bytes);
  return Status::invalid_argument(fmt::format(
      "{}: {} is not a size (expected a number and a unit, such as 80GiB)", option, *text));
}

}  // namespace

void add_limit_options(CLI::App& parser, LimitArguments& asked) {
  parser.add_option("--capacity", asked.capacity, "What the device has, such as 80GiB");
  parser.add_option("--cap", asked.cap, "The most the process may have, such as 14GiB");
}

Result<Limits> limits_of(const LimitArguments& asked, const DeviceRecording& recording) {
  const Result<std::optional<size_t>> capacity = size_of(asked.capacity, "--capacity");
  if (!capacity.ok()) return capacity.status();
  const Result<std::optional<size_t>> cap = size_of(asked.cap, "--cap");
  if (!cap.ok()) return cap.status();
  Limits limits;
  limits.capacity_bytes = capacity->has_value()
                              ? **capacity
                              : assumed_capacity_bytes(recording.snapshot(), recording.device());
  limits.cap_bytes = *cap;
  return limits;
}

}  // namespace ashlar
