// SPDX-License-Identifier: Apache-2.0
//
// Runs the commands that analyze recordings on all recordings, and checks that they succeed and
// print the same numbers, which the server of `ashlar view` returns, too.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "cli/cli_json.h"
#include "cli/run_cli.h"
#include "cli/view_server.h"

namespace ashlar {
namespace {

const std::filesystem::path kFolder = ASHLAR_GOLDEN_FOLDER;

// With a sanitizer, only small recordings are analyzed, because all of them take minutes.
#if defined(ASHLAR_TEST_SANITIZED)
constexpr uintmax_t kMaxRecordingBytes = 16 * 1024;
#else
constexpr uintmax_t kMaxRecordingBytes = std::numeric_limits<uintmax_t>::max();
#endif

std::vector<std::string> all_recordings() {
  std::set<std::string> files;
  for (const char* folder : {"traces", "recordings"}) {
    for (const auto& file : std::filesystem::directory_iterator(kFolder / folder)) {
      const bool is_recording = file.path().extension() == ".xz";
      if (is_recording && file.file_size() <= kMaxRecordingBytes)
        files.insert(file.path().string());
    }
  }
  return {files.begin(), files.end()};
}

std::string name_of(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  return name.substr(0, name.find(".pickle"));
}

// Returns PyTorch's own value from truth.tsv; -1 if the recording is not listed.
int64_t truth(const std::string& recording, const std::string& column) {
  std::ifstream file(kFolder / "recordings" / "truth.tsv");
  std::vector<std::string> columns;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::vector<std::string> values;
    for (std::string cell; std::getline(cells, cell, '\t');) values.push_back(cell);
    if (columns.empty()) columns = values;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (values[0] == recording && columns[i] == column) return std::stoll(values[i]);
    }
  }
  return -1;
}

// Returns the output of a command with --json. Exit code 1 is accepted: some commands use it for a
// replay that runs out of memory.
Json json_output_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const CliOutcome outcome = run_cli({.arguments = arguments});
  EXPECT_LE(outcome.exit_code, kExitFailure) << arguments[0] << ": " << outcome.err;
  EXPECT_EQ(outcome.err, "") << arguments[0];
  EXPECT_TRUE(Json::accept(outcome.out)) << arguments[0] << ": " << outcome.out;
  return Json::parse(outcome.out, nullptr, false);
}

size_t sum_of(const Json& list, const char* key) {
  size_t sum = 0;
  for (const Json& each : list) sum += each[key].get<size_t>();
  return sum;
}

// Expects that the replays of all commands have the same results.
void expect_replays_agree(const Json& report, const Json& replay, const Json& tune) {
  const Json& recorded_trial = tune["results"][0];
  EXPECT_TRUE(recorded_trial["is_recorded"]);
  EXPECT_EQ(replay["peak_reserved_bytes"], report["replayed"]["peak_reserved_bytes"]);
  EXPECT_EQ(replay["ooms"], report["replayed"]["ooms"]);
  EXPECT_EQ(recorded_trial["ooms"], replay["ooms"]);
  if (!recorded_trial["is_comparable"]) return;
  EXPECT_EQ(recorded_trial["peak_reserved_bytes"], replay["peak_reserved_bytes"]);
  for (const Json& trial : tune["results"]) {
    if (trial["ooms"] == 0 && trial["is_comparable"]) {
      EXPECT_GE(trial["peak_reserved_bytes"], tune["lower_bound_bytes"]) << trial;
    }
  }
  // A proposed setting saves memory.
  if (tune["paste"].is_null() || replay["ooms"] != 0) return;
  EXPECT_LT(tune["best"]["peak_reserved_bytes"].get<double>(),
            0.99 * tune["recorded"]["peak_reserved_bytes"].get<double>());
}

void expect_failure_agrees(const Json& oom, const Json& tune) {
  EXPECT_EQ(oom["out_of_memory"], oom["recorded"]["ooms"] != 0);
  if (oom["out_of_memory"] == false) return;
  EXPECT_EQ(oom["failures"], oom["recorded"]["ooms"]);
  EXPECT_EQ(sum_of(oom["holders"], "bytes"), oom["live_requested_bytes"]);
  EXPECT_EQ(sum_of(oom["categories"], "bytes"), oom["live_requested_bytes"]);
  EXPECT_LE(oom["state"]["reserved_bytes"], oom["recorded"]["peak_reserved_bytes"]);
  EXPECT_EQ(oom["state"]["reserved_bytes"].get<size_t>() - oom["state"]["free_bytes"].get<size_t>(),
            oom["state"]["allocated_bytes"]);
  EXPECT_LE(oom["verdict"]["needed_bytes"], oom["recorded"]["lower_bound_bytes"]);
  if (oom["failures"] == 1) {
    EXPECT_EQ(oom["verdict"]["needed_bytes"], oom["recorded"]["lower_bound_bytes"]);
  }
  EXPECT_FALSE(oom["verdict"]["remedies"].empty());
  Json completing = Json::array();
  for (const Json& trial : tune["results"]) {
    if (trial["ooms"] == 0) completing.push_back(trial);
  }
  EXPECT_EQ(oom["fitting"], completing);
}

// A setting that changes nothing changes no peak. `conf` is the recorded setting.
void expect_what_if_agrees(const std::string& file, const Json& report, std::string conf) {
  if (conf.find("max_split_size_mb") == std::string::npos) {
    conf += (conf.empty() ? "" : ",") + std::string("max_split_size_mb:1000000");
  }
  const Json what_if = json_output_of({"whatif", file, "--conf", conf});
  EXPECT_EQ(what_if["recorded"], report["recorded"]);
  EXPECT_EQ(what_if["device"], report["device"]);
  if (what_if.contains("cannot_tell")) return;
  const Json& before = what_if["before"];
  const Json& after = what_if["after"];
  const Json& replayed = report["replayed"];
  EXPECT_EQ(before["requested_peak_bytes"], report["recorded"]["peak_requested_bytes"]);
  EXPECT_EQ(before["reserved_peak_bytes"], report["recorded"]["peak_reserved_bytes"]);
  EXPECT_EQ(before["ooms"], report["recorded"]["ooms"]);
  EXPECT_EQ(after["requested_peak_bytes"], before["requested_peak_bytes"]);
  EXPECT_EQ(after["allocated_peak_bytes"], before["allocated_peak_bytes"]);
  EXPECT_EQ(after["allocated_peak_bytes"], replayed["peak_allocated_bytes"]);
  EXPECT_EQ(after["reserved_peak_bytes"], replayed["peak_reserved_bytes"]);
  EXPECT_EQ(after["ooms"], replayed["ooms"]);
  if (after["reserved_peak_bytes"] != before["reserved_peak_bytes"]) {
    EXPECT_FALSE(what_if["warnings"].empty()) << "the replay differs from the recording";
  }
}

// Returns the sum of a column of numbers of type f64 (docs/reference/formats/view.md).
size_t sum_of_column(const std::string& response, const std::string& name) {
  constexpr size_t kHeadBytes = 8;
  constexpr size_t kRowBytes = 32;
  constexpr size_t kNameBytes = 16;
  uint32_t column_count = 0;
  if (response.size() >= kHeadBytes) std::memcpy(&column_count, &response[4], 4);
  for (size_t i = 0; i < column_count; ++i) {
    const char* row = &response.at(kHeadBytes + i * kRowBytes);
    if (std::string(row, strnlen(row, kNameBytes)) != name) continue;
    uint32_t count = 0;
    uint64_t offset = 0;
    std::memcpy(&count, row + kNameBytes + 4, sizeof count);
    std::memcpy(&offset, row + kNameBytes + 8, sizeof offset);
    double sum = 0;
    for (uint32_t k = 0; k < count; ++k) {
      double value = 0;
      std::memcpy(&value, &response.at(offset + k * sizeof value), sizeof value);
      sum += value;
    }
    return static_cast<size_t>(sum);
  }
  ADD_FAILURE() << "the response has no column " << name;
  return 0;
}

// Expects that the scene of the viewer has the peaks of the report.
void expect_scene_agrees(const Json& document, const Json& report) {
  const Json& recorded = report["recorded"];
  EXPECT_EQ(document["device"], report["device"]);
  EXPECT_EQ(document["peak"]["requested"], recorded["peak_requested_bytes"]);
  EXPECT_EQ(document["reserved_peak"]["reserved"], recorded["peak_reserved_bytes"]);
  EXPECT_EQ(document["reserved_peak"]["requested"], report["at_peak"]["requested_bytes"]);
  if (!recorded["peak_entry"].is_null()) {
    EXPECT_EQ(document["reserved_peak"]["entry"], recorded["peak_entry"]);
  }
  EXPECT_EQ(document["lower_bound"], recorded["lower_bound_bytes"]);
  EXPECT_EQ(document["oom_count"], recorded["ooms"]);
}

// Expects that the server of the viewer returns what the commands print. `answers` are the outputs
// of the commands by name.
void expect_server_agrees(const std::string& file, const std::map<std::string, Json>& answers) {
  const ViewServer server({file});
  const Json scene = server.scene();
  const size_t number = scene["default_document"];
  const Json& document = scene["documents"][number];
  const Json& report = answers.at("report");
  expect_scene_agrees(document, report);
  const std::string path = "d/" + std::to_string(number) + "/";
  const auto without_file = [](Json json) {
    json.erase("file");  // the page shows the name only
    return json;
  };
  for (const std::string command : {"oom", "leaks", "annotate"}) {
    EXPECT_EQ(without_file(server.json(path + command + ".json")),
              without_file(answers.at(command)))
        << command;
  }
  const Json training = server.json(path + "training.json");
  EXPECT_EQ(training["categories"], report["categories"]);
  EXPECT_EQ(training["iterations"], report["iterations"]);
  const std::string moment = document["reserved_peak"]["entry"].dump();
  const std::string at_peak = body_of(server.completed(path + "stacks?at=" + moment));
  if (!report["recorded"]["peak_entry"].is_null()) {
    EXPECT_EQ(sum_of_column(at_peak, "bytes"), report["at_peak"]["requested_bytes"]);
    EXPECT_EQ(sum_of_column(at_peak, "split_bytes"), report["at_peak"]["requested_bytes"]);
  }
  if (document["has_history"] == false) return;
  const Json causes = server.json(path + "causes.json");
  for (const auto& [key, value] : causes["at_peak"].items()) {
    if (key == "explanations") continue;
    EXPECT_EQ(value, report["at_peak"][key]) << key;
  }
  for (const char* key : {"peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
                          "peak_entry", "lower_bound_bytes", "packed_bytes", "ooms", "advice"}) {
    EXPECT_EQ(causes[key], report[key]) << key;
  }
  for (const char* key : {"best", "paste", "paged", "note"}) {
    EXPECT_EQ(causes[key], answers.at("tune")[key]) << key;
  }
}

// The exported trace has one line per entry of each device, and a heading.
void expect_export_agrees(const std::string& file, const Json& report) {
  const CliOutcome csv = run_cli({.arguments = {"export", file, "--to", "csv", "-o", "-"}});
  EXPECT_EQ(csv.exit_code, kExitSuccess) << csv.err;
  const size_t entries =
      report["entries"].get<size_t>() + sum_of(report["recorded"]["other_devices"], "entries");
  EXPECT_EQ(static_cast<size_t>(std::count(csv.out.begin(), csv.out.end(), '\n')), entries + 1);
}

// Expects PyTorch's own peaks, if they are known and in the recorded entries.
void expect_peaks_of_pytorch(const std::string& recording, const Json& report) {
  const int64_t reserved = truth(recording, "peak_reserved_bytes");
  // These recordings lack the entries of the peak.
  const std::set<std::string> incomplete = {"state_only", "late_recording", "lost_beginning"};
  if (reserved < 0 || incomplete.contains(recording)) return;
  EXPECT_EQ(report["peak_reserved_bytes"], reserved);
  EXPECT_EQ(report["peak_requested_bytes"], truth(recording, "peak_requested_bytes"));
  EXPECT_EQ(report["replayed"]["peak_allocated_bytes"], truth(recording, "peak_allocated_bytes"));
}

class AllRecordings : public testing::TestWithParam<std::string> {};

TEST_P(AllRecordings, AllCommandsAgree) {
  const std::string& file = GetParam();
  const Json report = json_output_of({"report", file});
  const Json& recorded = report["recorded"];
  const auto expect_agrees = [&](const std::string& command, const Json& answer) {
    EXPECT_EQ(answer["recorded"], recorded) << command;
    EXPECT_EQ(answer["device"], report["device"]) << command;
  };
  std::map<std::string, Json> answers = {{"report", report}};
  for (const std::string command : {"replay", "tune", "oom", "leaks", "annotate"}) {
    answers[command] = json_output_of({command, file});
    expect_agrees(command, answers[command]);
  }
  const Json& lines = answers["annotate"];
  size_t line_bytes = 0;
  for (const char* list : {"files", "elsewhere"}) {
    for (const Json& each : lines[list]) line_bytes += each["bytes_at_peak"].get<size_t>();
  }
  EXPECT_EQ(line_bytes, report["at_peak"]["requested_bytes"]);
  if (!answers["tune"].contains("cannot_tell")) {
    EXPECT_EQ(answers["tune"]["lower_bound_bytes"], recorded["lower_bound_bytes"]);
    expect_replays_agree(report, answers["replay"], answers["tune"]);
    expect_failure_agrees(answers["oom"], answers["tune"]);
  }
  expect_what_if_agrees(file, report, answers["replay"].value("conf", ""));
  expect_server_agrees(file, answers);
  expect_export_agrees(file, report);
  expect_peaks_of_pytorch(name_of(file), report);
  const Json diff = json_output_of({"diff", file, file, "--at", "peak"});
  expect_agrees("diff", diff["base"]);
  EXPECT_EQ(diff["base"]["bytes"], report["at_peak"]["requested_bytes"]);
  const Json gate = json_output_of({"gate", file, file});
  expect_agrees("gate", gate["new"]);
  EXPECT_EQ(gate["checks"][0]["new"], recorded["peak_requested_bytes"]);
  EXPECT_EQ(gate["checks"][1]["new"], recorded["peak_reserved_bytes"]);

  EXPECT_EQ(report["peak_entry"], recorded["peak_entry"]);
  EXPECT_EQ(report["peak_reserved_bytes"], recorded["peak_reserved_bytes"]);
  EXPECT_EQ(report["at_peak"]["reserved_bytes"], recorded["peak_reserved_bytes"]);
  EXPECT_EQ(report["requested_peak"]["requested_bytes"], recorded["peak_requested_bytes"]);
  EXPECT_EQ(sum_of(report["at_peak"]["stacks"], "bytes"), report["at_peak"]["requested_bytes"]);
  EXPECT_EQ(sum_of(report["categories"], "bytes_at_peak"), report["at_peak"]["requested_bytes"]);
  EXPECT_EQ(report["lower_bound_bytes"], recorded["lower_bound_bytes"]);
  EXPECT_LE(report["lower_bound_bytes"], report["packed_bytes"]);
  // The run itself is a layout, unless a request failed.
  if (recorded["ooms"] == 0) {
    EXPECT_LE(report["packed_bytes"], report["peak_reserved_bytes"]);
  }
}

TEST_P(AllRecordings, AllCommandsPrintText) {
  const std::string& file = GetParam();
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"report", file},
                                             {"replay", file},
                                             {"oom", file},
                                             {"leaks", file},
                                             {"annotate", file},
                                             {"whatif", file, "--conf", "max_split_size_mb:64"},
                                             {"tune", file},
                                             {"diff", file, file},
                                             {"gate", file, file}}) {
    const CliOutcome outcome = run_cli({.arguments = arguments});
    EXPECT_LE(outcome.exit_code, kExitFailure) << arguments[0] << ": " << outcome.err;
    EXPECT_NE(outcome.out, "") << arguments[0];
    EXPECT_EQ(outcome.out.find("1 times"), std::string::npos) << arguments[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, AllRecordings, testing::ValuesIn(all_recordings()),
                         [](const auto& tested) {
                           std::string name = name_of(tested.param);
                           for (char& letter : name) letter = letter == '.' ? '_' : letter;
                           return name;
                         });

TEST(SeveralDevicesTest, DefaultToDeviceThatRanOutOfMemory) {
  const std::string file = (kFolder / "recordings" / "three_devices.pickle.xz").string();
  const Json report = run_json({"report", file});
  EXPECT_EQ(report["device"], 1);
  EXPECT_EQ(report["ooms"], 1);
  const Json& others = report["recorded"]["other_devices"];
  ASSERT_EQ(others.size(), 2U);
  EXPECT_EQ(others[0]["device"], 0);
  EXPECT_EQ(others[0]["peak_reserved_bytes"], truth("transformer", "peak_reserved_bytes"));
  EXPECT_EQ(run_json({"report", file, "--device", "0"})["peak_reserved_bytes"],
            truth("transformer", "peak_reserved_bytes"));
  const Json state = run_json({"report", file, "--device", "2"});
  EXPECT_EQ(state["entries"], 1);
  EXPECT_GT(state["peak_reserved_bytes"], 0);
  EXPECT_EQ(state["iterations"]["problem"], "the recording has no history");
  EXPECT_EQ(run_json({"leaks", file, "--device", "2"})["entries"], 1);
}

TEST(SeveralDevicesTest, UseRecordedLimitInEveryReplay) {
  const std::string file = (kFolder / "recordings" / "three_devices.pickle.xz").string();
  const Json oom = run_json({"oom", file});
  const Json tune = json_output_of({"tune", file});
  const Json replay = run_json({"replay", file}, kExitFailure);
  EXPECT_TRUE(tune["is_limit_recorded"]);
  EXPECT_TRUE(replay["is_limit_recorded"]);
  EXPECT_EQ(tune["capacity_bytes"], replay["capacity_bytes"]);
  EXPECT_EQ(tune["cap_bytes"], replay["cap_bytes"]);
  EXPECT_EQ(replay["ooms"], 1);
  EXPECT_EQ(replay["oom_entries"][0]["entry"], oom["entry"]);
  const std::string message = replay["oom_entries"][0]["message"];
  EXPECT_NE(message.find(" on device 1,"), std::string::npos) << message;
  size_t completing = 0;
  for (const Json& trial : tune["results"]) completing += trial["ooms"] == 0 ? 1 : 0;
  EXPECT_EQ(completing, oom["fitting"].size());
}

TEST(StateOnlyTest, CommandsReportThatHistoryIsMissing) {
  const std::string file = (kFolder / "recordings" / "state_only.pickle.xz").string();
  for (const std::string command : {"replay", "tune", "oom", "leaks"}) {
    const std::string reason = run_json({command, file})["cannot_tell"];
    EXPECT_NE(reason.find("history"), std::string::npos) << command << ": " << reason;
  }
  const Json report = run_json({"report", file});
  EXPECT_TRUE(report["replayed"].is_null());
  EXPECT_GT(report["empty_cache_bytes"], 0);
  EXPECT_LE(report["empty_cache_bytes"], report["at_peak"]["gap_bytes"]);
  EXPECT_GT(report["at_peak"]["stacks"].size(), 1U);
}

}  // namespace
}  // namespace ashlar
