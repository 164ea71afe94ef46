// SPDX-License-Identifier: Apache-2.0
//
// Converts the lines of each file, with their text.
#include "analysis/report_json/annotate_json.h"

#include <nlohmann/json.hpp>

#include "analysis/json_analysis.h"
#include "analysis/report_json/recorded_json.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

void put_use(Json& json, const LineUse& use) {
  json["bytes_at_peak"] = use.bytes_at_peak;
  json["count_at_peak"] = use.count_at_peak;
  json["allocated_bytes"] = use.allocated_bytes;
  json["allocation_count"] = use.allocation_count;
}

Json categories_of(const SourceLine& line) {
  Json json = Json::object();
  for (size_t i = 0; i < kCategoryCount; ++i) {
    const size_t bytes = line.categories_at_peak[i];
    if (bytes > 0) json[name(static_cast<Category>(i))] = bytes;
  }
  return json;
}

Json line_json(const SourceLine& line, const Result<SourceText>& source) {
  Json json = {{"line", line.line}, {"function", line.function}};
  put_use(json, line.own);
  json["bytes_at_peak_with_calls"] = line.with_calls.bytes_at_peak;
  json["allocated_bytes_with_calls"] = line.with_calls.allocated_bytes;
  json["categories"] = categories_of(line);
  const bool has_text = source.ok() && line.line > 0;
  json["text"] = has_text ? Json(source->lines[static_cast<size_t>(line.line) - 1]) : Json();
  return json;
}

Json file_json(const SourceFile& file, const Result<SourceText>& source) {
  Json json = {{"path", file.path},
               {"source", source.ok() ? Json(source->path) : Json()},
               {"source_problem", source.ok() ? Json() : Json(source.status().message())}};
  put_use(json, file.own);
  json["lines"] = Json::array();
  for (const SourceLine& line : file.lines) json["lines"].push_back(line_json(line, source));
  return json;
}

}  // namespace

Result<SourceText> read_source(const SourceFile& file, const SourceFolders& folders) {
  std::vector<RecordedLine> expected;
  for (const SourceLine& line : file.lines) {
    if (line.line > 0) expected.push_back({line.function, line.line});
  }
  return folders.read(file.path, expected);
}

Json annotate_json(const DeviceRecording& run, const SourceLines& found,
                   const SourceFolders& folders) {
  Json files = Json::array();
  for (const SourceFile& file : found.files) {
    const bool is_looked_up = !folders.is_empty() && files.size() < kMaxSourceFiles;
    files.push_back(file_json(file, is_looked_up ? read_source(file, folders)
                                                 : Status::invalid_argument("not looked for")));
  }
  Json elsewhere = Json::array();
  for (const UseOutsideUserCode& each : found.outside_user_code) {
    elsewhere.push_back({{"name", each.name}});
    put_use(elsewhere.back(), each.use);
  }
  const std::optional<uint32_t>& entry = run.timeline().reserved_peak.entry;
  Json json = {{"file", run.name()},
               {"device", run.device().value()},
               {"peak_entry", entry ? Json(*entry) : Json()}};
  put_use(json, found.total);
  json["files"] = std::move(files);
  json["elsewhere"] = std::move(elsewhere);
  json["recorded"] = recorded_json(run);
  return json;
}

Json source_json(const SourceFile& file, const SourceText& text) {
  return {{"path", file.path}, {"source", text.path}, {"lines", text.lines}};
}

}  // namespace ashlar
