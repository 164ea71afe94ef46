// SPDX-License-Identifier: Apache-2.0
//
// Describes each document in one object, with bounded lists of annotations and failures.
#include "view/scene.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "analysis/training/categories.h"
#include "base/text.h"
#include "view/json_text.h"
#include "view/timeline_tile.h"

namespace ashlar::view {
namespace {

using Json = nlohmann::ordered_json;

// Maximum number of annotations, and of out-of-memory errors, in the lists of a document. The full
// counts are separate values.
constexpr size_t kMaxMarks = 10'000;

// An annotation at an entry of the trace.
struct Mark {
  uint32_t entry = 0;
  const Annotation* annotation = nullptr;  // null: the entry is an annotation
};

// Returns the last entry that is not later than the time, or the first entry if all entries are
// later. Assumes that the times of entries ascend.
uint32_t entry_at(const Document& document, int64_t time_us) {
  const std::vector<TraceEntry>& trace = document.trace();
  const auto after =
      std::partition_point(trace.begin(), trace.end(),
                           [time_us](const TraceEntry& entry) { return entry.time_us <= time_us; });
  return after == trace.begin() ? 0 : static_cast<uint32_t>(after - trace.begin() - 1);
}

// Formats an annotation as "forward START", for example, followed by its other fields.
std::string annotation_text(const Annotation& annotation) {
  std::string name;
  std::string others;
  for (const auto& [key, value] : annotation.fields) {
    if (key == "name") {
      name = value;
    } else {
      others += key == "stage" ? text(" ", value) : text(" ", key, "=", value);
    }
  }
  return name + others;
}

// Returns all annotations, from the snapshot and from the trace, in the order of entries.
std::vector<Mark> marks_of(const Document& document) {
  const Snapshot& snapshot = document.recording().snapshot();
  std::vector<Mark> marks;
  for (const Annotation& annotation : snapshot.annotations) {
    if (annotation.device != document.device()) continue;
    marks.push_back({entry_at(document, annotation.time_us), &annotation});
  }
  const std::vector<TraceEntry>& trace = document.trace();
  for (uint32_t i = 0; i < trace.size(); ++i) {
    if (trace[i].action == TraceAction::kAnnotate) marks.push_back({i});
  }
  std::stable_sort(marks.begin(), marks.end(),
                   [](const Mark& a, const Mark& b) { return a.entry < b.entry; });
  return marks;
}

std::string annotation_text(const Document& document, const Mark& mark) {
  if (mark.annotation != nullptr) return annotation_text(*mark.annotation);
  const std::vector<std::string>& texts = document.recording().snapshot().tables.strings;
  const uint32_t words = document.trace()[mark.entry].user_metadata.value();
  return words < texts.size() ? texts[words] : "";
}

// The first elements of a list, and the length of the whole list.
struct TruncatedList {
  Json first = Json::array();
  size_t count = 0;
};

TruncatedList annotations_of(const Document& document) {
  const std::vector<Mark> marks = marks_of(document);
  TruncatedList annotations{.count = marks.size()};
  for (const Mark& mark : marks) {
    if (annotations.first.size() == kMaxMarks) break;
    annotations.first.push_back({{"entry", mark.entry}, {"text", annotation_text(document, mark)}});
  }
  return annotations;
}

TruncatedList ooms_of(const Document& document) {
  TruncatedList ooms;
  const std::vector<TraceEntry>& trace = document.trace();
  for (uint32_t i = 0; i < trace.size(); ++i) {
    if (trace[i].action != TraceAction::kOom || ooms.count++ >= kMaxMarks) continue;
    ooms.first.push_back(
        {{"entry", i}, {"requested", trace[i].bytes}, {"free", trace[i].address.value()}});
  }
  return ooms;
}

Json streams_of(const Document& document) {
  Json names = Json::array();
  for (const StreamId stream : document.streams()) {
    names.push_back(stream == StreamId() ? "0" : text(DeviceAddress(stream.value())));
  }
  return names;
}

Json pools_of(const Document& document) {
  Json names = Json::array();
  for (const PoolId pool : document.pools()) {
    names.push_back(pool.is_default() ? "default" : text(pool.capture, ":", pool.user));
  }
  return names;
}

Json category_names() {
  Json names = Json::array();
  for (size_t i = 0; i < kCategoryCount; ++i) names.push_back(name(static_cast<Category>(i)));
  return names;
}

Json time_of(const Document& document, uint32_t entry) {
  const TraceEntry& found = document.trace()[entry];
  return found.has_time ? Json(found.time_us) : Json();
}

Json document_json(const SceneDocument& shown) {
  const Document& document = *shown.document;
  const uint32_t peak = document.peak();
  const uint32_t reserved_peak = document.reserved_peak();
  const TruncatedList annotations = annotations_of(document);
  const TruncatedList ooms = ooms_of(document);
  return {
      {"name", document.recording().name()},
      {"device", document.device().value()},
      {"entries", document.entry_count()},
      {"has_history", document.has_history()},
      {"columns", kTileColumns},
      {"levels", level_count(document.entry_count())},
      {"first_us", time_of(document, 0)},
      {"last_us", time_of(document, document.entry_count() - 1)},
      {"peak",
       {{"entry", peak},
        {"requested", document.requested().at(peak)},
        {"allocated", document.allocated_at(peak)},
        {"reserved", document.reserved_at(peak)}}},
      {"reserved_peak",
       {{"entry", reserved_peak},
        {"reserved", document.reserved_at(reserved_peak)},
        {"requested", document.requested().at(reserved_peak)}}},
      {"lower_bound", document.device_recording().timeline().lower_bound.bytes},
      {"streams", streams_of(document)},
      {"pools", pools_of(document)},
      {"categories", category_names()},
      {"phases", document.has_phases()},
      {"annotations", annotations.first},
      {"annotation_count", annotations.count},
      {"ooms", ooms.first},
      {"oom_count", ooms.count},
      {"allocations", document.allocations().all.size()},
      {"moments", shown.moments ? Json(*shown.moments) : Json()},
  };
}

// Returns the number of the document to open first: among the documents of each file's default
// device, the one that ran out of memory, otherwise the one with the highest peak.
size_t default_document(const std::vector<SceneDocument>& documents) {
  using Rank = std::tuple<bool, uint64_t>;
  size_t best = 0;
  std::optional<Rank> best_rank;
  for (size_t i = 0; i < documents.size(); ++i) {
    const Document& document = *documents[i].document;
    if (document.recording().default_device() != document.device()) continue;
    const Rank rank = {document.device_recording().has_oom(),
                       document.reserved_at(document.reserved_peak())};
    if (best_rank && rank <= *best_rank) continue;
    best = i;
    best_rank = rank;
  }
  return best;
}

}  // namespace

std::string scene_json(const std::vector<SceneDocument>& documents, const SceneHeader& header) {
  Json all = Json::array();
  for (const SceneDocument& each : documents) all.push_back(document_json(each));
  const Json live = header.live.empty() ? Json() : Json(header.live);
  return json_text({{"version", 1},
                    {"program", header.program},
                    {"live", live},
                    {"default_document", default_document(documents)},
                    {"documents", all}});
}

}  // namespace ashlar::view
