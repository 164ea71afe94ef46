// SPDX-License-Identifier: Apache-2.0
//
// `ashlar gate`: checks, for continuous integration, that a run does not exceed the memory use of a
// baseline by more than the given limits. The exit code is the result.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

#include "analysis/gate.h"
#include "analysis/report_json/recorded_json.h"
#include "cli/recording/gate_report.h"
#include "cli/recording/recorded_run.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/stack_text.h"
#include "format/file_sink.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

struct GateArguments {
  std::string base{};
  std::string now{};
  std::optional<std::string> peak{};
  std::optional<std::string> fragmentation{};
  std::optional<uint64_t> device{};
  std::string junit{};
  std::string markdown{};
  bool json = false;
};

CommandFunction prepare_gate(CLI::App& parser);
ExitCode run_gate(const GateArguments& arguments, const Session& session);
Result<GateLimits> parse_gate_limits(const GateArguments& arguments);
Status write_file(const std::string& path, const std::string& text);
Json gate_as_json(const GateReport& report, const DeviceRecording& base,
                  const DeviceRecording& now);

}  // namespace

const Subcommand kGate = {
    .name = "gate",
    .summary = "Fail if a run needs more memory than a baseline",
    .prepare = prepare_gate,
};

namespace {

CommandFunction prepare_gate(CLI::App& parser) {
  auto arguments = std::make_shared<GateArguments>();
  parser.add_option("BASE", arguments->base, kSnapshotHelp)->type_name("FILE")->required();
  parser.add_option("NEW", arguments->now, "Snapshot to check")->type_name("FILE")->required();
  parser
      .add_option("--peak", arguments->peak, "Allowed growth of the peaks, such as +2% or +100MiB")
      ->type_name("LIMIT");
  parser
      .add_option("--fragmentation", arguments->fragmentation,
                  "Allowed growth of fragmentation, such as +1%")
      ->type_name("LIMIT");
  parser.add_option("--device", arguments->device, kDeviceHelp);
  parser.add_option("--junit", arguments->junit, "Write the result to this file as JUnit XML")
      ->type_name("FILE");
  parser.add_option("--markdown", arguments->markdown, "Write the result to this file as Markdown")
      ->type_name("FILE");
  add_json_flag(parser, arguments->json);
  parser.footer(
      "Checks only the limits you pass. Default: --peak +2% --fragmentation +1%.\n"
      "--peak applies to requested and to reserved bytes. Fragmentation is\n"
      "1 - requested / reserved at the peak of reserved bytes.\n"
      "Exit code 1: a limit was exceeded.");
  return [arguments](const Session& session) { return run_gate(*arguments, session); };
}

// Returns lines about one of the two recordings: whether it has a history, and its other devices.
std::string notes_about(const DeviceRecording& run) {
  std::string notes;
  if (!run.has_history()) {
    notes = fmt::format("{} has no history: its peaks are the values at the snapshot.\n",
                        printable(run.name()));
  }
  return notes + other_devices_text(run);
}

ExitCode run_gate(const GateArguments& arguments, const Session& session) {
  const Result<GateLimits> limits = parse_gate_limits(arguments);
  if (!limits.ok()) return print_failure(limits.status(), session);
  const Result<DeviceRecording> base = read_run(arguments.base, arguments.device);
  if (!base.ok()) return print_failure(base.status(), session);
  const Result<DeviceRecording> now = read_run(arguments.now, arguments.device);
  if (!now.ok()) return print_failure(now.status(), session);

  const GateReport report = {
      .base = arguments.base,
      .now = arguments.now,
      .notes = notes_about(*base) + notes_about(*now),
      .result = check_gate(gate_metrics(base->timeline()), gate_metrics(now->timeline()), *limits)};
  Status written = write_file(arguments.junit, gate_as_junit(report));
  if (written.ok()) written = write_file(arguments.markdown, gate_as_markdown(report));
  if (!written.ok()) return print_failure(written, session);
  if (arguments.json) {
    session.console.print(format_json(gate_as_json(report, *base, *now)));
  } else {
    session.console.print(gate_as_text(report));
  }
  return report.result.is_passed() ? ExitCode::kSuccess : ExitCode::kFailure;
}

// Prefixes the message with the option's name.
Status invalid_option_error(std::string_view option, const Status& failure) {
  return Status::invalid_argument(std::string(option) + ": " + failure.message());
}

Result<GateLimits> parse_gate_limits(const GateArguments& arguments) {
  // Standard output carries the text or JSON result, so reports must go to files.
  if (arguments.junit == "-" || arguments.markdown == "-") {
    return Status::invalid_argument("--junit and --markdown need a file name, not -");
  }
  if (!arguments.peak && !arguments.fragmentation) {
    return GateLimits{.peak = GateLimit{.fraction = 0.02}, .fragmentation_fraction = 0.01};
  }
  GateLimits limits;
  if (arguments.peak) {
    const Result<GateLimit> peak = parse_gate_limit(*arguments.peak);
    if (!peak.ok()) return invalid_option_error("--peak", peak.status());
    limits.peak = *peak;
  }
  if (arguments.fragmentation) {
    const Result<GateLimit> limit = parse_gate_limit(*arguments.fragmentation);
    if (!limit.ok()) return invalid_option_error("--fragmentation", limit.status());
    if (!arguments.fragmentation->ends_with('%')) {
      return Status::invalid_argument("--fragmentation: \"" + *arguments.fragmentation +
                                      "\" is a size (expected a percentage, such as +1%)");
    }
    limits.fragmentation_fraction = limit->fraction;
  }
  return limits;
}

Status write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return Status();
  Result<FileSink> sink = FileSink::open(path);
  if (!sink.ok()) return sink.status();
  if (Status written = sink->write(text); !written.ok()) return written;
  return sink->close();
}

Json side_as_json(const DeviceRecording& run) {
  return {{"file", run.name()},
          {"device", run.device().value()},
          {"has_history", run.has_history()},
          {"recorded", recorded_json(run)}};
}

Json gate_as_json(const GateReport& report, const DeviceRecording& base,
                  const DeviceRecording& now) {
  Json checks = Json::array();
  for (const GateCheck& check : report.result.checks) {
    const auto value = [&](double number) {
      return check.unit == GateUnit::kBytes ? Json(static_cast<uint64_t>(number)) : Json(number);
    };
    checks.push_back({{"name", check.name},
                      {"unit", check.unit == GateUnit::kBytes ? "bytes" : "fraction"},
                      {"base", value(check.base)},
                      {"new", value(check.now)},
                      {"allowed", value(check.allowed)},
                      {"passed", check.is_passed()}});
  }
  return {{"passed", report.result.is_passed()},
          {"base", side_as_json(base)},
          {"new", side_as_json(now)},
          {"checks", checks}};
}

}  // namespace
}  // namespace ashlar
