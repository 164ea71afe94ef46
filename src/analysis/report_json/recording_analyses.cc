// SPDX-License-Identifier: Apache-2.0
//
// Calls each analysis as its command does, with the settings and limits of the recording.
#include "analysis/report_json/recording_analyses.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include "analysis/replay/oom.h"
#include "analysis/replay/tune.h"
#include "analysis/report_json/annotate_json.h"
#include "analysis/report_json/causes_json.h"
#include "analysis/report_json/leaks_json.h"
#include "analysis/report_json/oom_json.h"
#include "analysis/report_json/recorded_json.h"
#include "analysis/report_json/training_json.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kReplays = "replaying the run under other settings";
constexpr const char* kAnalyzes = "analyzing the recording";

// Strings from files may contain any bytes; invalid UTF-8 is replaced.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> causes_result(const DeviceRecording& run, const KeepGoing& keep_going) {
  if (!run.has_history()) {
    return Status::unsupported("the recording has no history of this device to replay");
  }
  const Result<Json> causes = causes_json(run, keep_going);
  if (!causes.ok()) return causes.status();
  return dump(*causes);
}

Result<std::string> oom_result(const DeviceRecording& run, const KeepGoing& keep_going) {
  if (!run.has_history()) return dump(no_history_json(run, HistoryQuestion::kExplainFailure));
  const Result<ReplayLimits> limits = find_limits(run, {}, {}, keep_going);
  if (!limits.ok()) return limits.status();
  TuneOptions options = tune_options(run, *limits);
  options.keep_going = keep_going;
  const Result<std::optional<OomReport>> report =
      explain_oom(run.snapshot(), run.allocations(), options);
  if (!report.ok()) return report.status();
  return dump(oom_json(run, *report));
}

Result<std::string> leaks_result(const DeviceRecording& run, const KeepGoing& keep_going) {
  if (!run.has_history()) return dump(no_history_json(run, HistoryQuestion::kFindLeaks));
  const LeakReport leaks = leaks_of(run, StackDetail::kUserCode, keep_going);
  if (!keep_going()) return Status::timeout("the analysis was cancelled");
  return dump(leaks_json(run, leaks));
}

}  // namespace

JsonAnalyses recording_analyses(SourceFolders folders) {
  // Owned by the functions that use it.
  const auto shared = std::make_shared<const SourceFolders>(std::move(folders));
  JsonAnalyses analyses;
  analyses.by_name = {
      {"causes.json", {kReplays, causes_result}},
      {"oom.json", {kReplays, oom_result}},
      {"leaks.json", {kAnalyzes, leaks_result}},
      {"training.json",
       {kAnalyzes,
        [](const DeviceRecording& run, const KeepGoing&) -> Result<std::string> {
          return dump(training_json(run));
        }}},
      {"annotate.json",
       {kAnalyzes,
        [shared](const DeviceRecording& run, const KeepGoing&) -> Result<std::string> {
          return dump(annotate_json(run, source_lines_of(run), *shared));
        }}},
  };
  if (shared->is_empty()) return analyses;
  analyses.source = [shared](const DeviceRecording& run, uint32_t file) -> Result<std::string> {
    const std::vector<SourceFile>& files = source_lines_of(run).files;
    if (file >= std::min<size_t>(files.size(), kMaxSourceFiles)) {
      return Status::invalid_argument("no such file");
    }
    const Result<SourceText> source = read_source(files[file], *shared);
    if (!source.ok()) return source.status();
    return dump(source_json(files[file], *source));
  };
  return analyses;
}

}  // namespace ashlar
