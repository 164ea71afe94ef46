// SPDX-License-Identifier: Apache-2.0
//
// `ashlar gate`: whether a recorded run needs more memory than the one before it, beyond what is
// allowed. For continuous integration: the exit code is the answer.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

#include "analysis/gate.h"
#include "cli/gate_reports.h"
#include "cli/json_answer.h"
#include "cli/recorded_run.h"
#include "cli/subcommand.h"
#include "format/file_sink.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

struct GateOptions {
  std::string base{};
  std::string now{};
  std::optional<std::string> peak{};
  std::optional<std::string> fragmentation{};
  std::optional<uint64_t> device{};
  std::string junit{};
  std::string markdown{};
  bool json = false;
};

Run prepare_gate(CLI::App& parser);
ExitCode run_gate(const GateOptions& asked, const Session& session);
Result<GateLimits> limits_in(const GateOptions& asked);
Status write_file(const std::string& path, const std::string& text);
Json gate_as_json(const GateReport& report, uint64_t base_device, uint64_t new_device);

}  // namespace

const Subcommand kGate = {
    .name = "gate",
    .summary = "Fail when a run needs more memory than the one before it",
    .prepare = prepare_gate,
};

namespace {

Run prepare_gate(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<GateOptions>();
  parser.add_option("BASE", asked->base, kSnapshotHelp)->required();
  parser.add_option("NEW", asked->now, "Snapshot that must not be worse")->required();
  parser.add_option("--peak", asked->peak,
                    "How much more the peaks may be, such as +2% or +100MiB: that of requested "
                    "bytes, and that of reserved bytes");
  parser.add_option("--fragmentation", asked->fragmentation,
                    "How many points more may be wasted, such as +1%: of 1 - requested / reserved "
                    "at the peak of reserved bytes");
  parser.add_option("--device", asked->device, kDeviceHelp);
  parser.add_option("--junit", asked->junit, "File for the verdict as JUnit XML");
  parser.add_option("--markdown", asked->markdown, "File for the verdict as Markdown");
  add_json_flag(parser, asked->json);
  parser.footer(
      "Only what has a limit is judged; without any, --peak +2% and --fragmentation +1% are "
      "meant.\n"
      "Where reserved memory stays at its peak, the entry with the most requested bytes counts.\n"
      "Exits with 1 when something is worse than allowed.");
  return [asked](const Session& session) { return run_gate(*asked, session); };
}

ExitCode run_gate(const GateOptions& asked, const Session& session) {
  const Result<GateLimits> limits = limits_in(asked);
  if (!limits.ok()) return complain(limits.status(), session);
  const Result<DeviceRecording> base = read_run(asked.base, asked.device);
  if (!base.ok()) return complain(base.status(), session);
  const Result<DeviceRecording> now = read_run(asked.now, asked.device);
  if (!now.ok()) return complain(now.status(), session);

  const GateReport report = {
      .base = asked.base,
      .now = asked.now,
      .result = check_gate(gate_metrics(base->timeline()), gate_metrics(now->timeline()), *limits)};
  Status written = write_file(asked.junit, gate_as_junit(report));
  if (written.ok()) written = write_file(asked.markdown, gate_as_markdown(report));
  if (!written.ok()) return complain(written, session);
  if (asked.json) {
    session.console.print(
        json_answer(gate_as_json(report, base->device().value(), now->device().value())));
  } else {
    session.console.print(gate_as_text(report));
  }
  return report.result.is_passed() ? ExitCode::kDone : ExitCode::kNo;
}

// "--peak: " before what is wrong with its text.
Status wrong(std::string_view option, const Status& failure) {
  return Status::invalid_argument(std::string(option) + ": " + failure.message());
}

Result<GateLimits> limits_in(const GateOptions& asked) {
  // Standard output is for one answer.
  if (asked.junit == "-" || asked.markdown == "-") {
    return Status::invalid_argument("--junit and --markdown need the name of a file, not -");
  }
  if (!asked.peak && !asked.fragmentation) {
    return GateLimits{.peak = GateLimit{.fraction = 0.02}, .fragmentation_fraction = 0.01};
  }
  GateLimits limits;
  if (asked.peak) {
    const Result<GateLimit> peak = parse_gate_limit(*asked.peak);
    if (!peak.ok()) return wrong("--peak", peak.status());
    limits.peak = *peak;
  }
  if (asked.fragmentation) {
    const Result<GateLimit> limit = parse_gate_limit(*asked.fragmentation);
    if (!limit.ok()) return wrong("--fragmentation", limit.status());
    if (!asked.fragmentation->ends_with('%')) {
      return Status::invalid_argument("--fragmentation: \"" + *asked.fragmentation +
                                      "\" is a size (expected per cent, such as +1%)");
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

Json gate_as_json(const GateReport& report, uint64_t base_device, uint64_t new_device) {
  Json checks = Json::array();
  for (const GateCheck& check : report.result.checks) {
    const auto value = [&](double number) {
      return check.unit == GateUnit::kBytes ? Json(static_cast<uint64_t>(number)) : Json(number);
    };
    checks.push_back({{"name", check.name},
                      {"unit", check.unit == GateUnit::kBytes ? "bytes" : "part"},
                      {"base", value(check.base)},
                      {"new", value(check.now)},
                      {"allowed", value(check.allowed)},
                      {"passed", check.is_passed()}});
  }
  return {{"passed", report.result.is_passed()},
          {"base", {{"file", report.base}, {"device", base_device}}},
          {"new", {{"file", report.now}, {"device", new_device}}},
          {"checks", checks}};
}

}  // namespace
}  // namespace ashlar
