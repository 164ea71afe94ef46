// SPDX-License-Identifier: Apache-2.0
//
// Adds responses in steps. The responses of a step are added completely or not at all, so that a
// level of tiles has no holes.
#include "view/self_contained_page.h"

#include <zlib.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "view/scene.h"
#include "view/timeline_tile.h"

namespace ashlar::view {
namespace {

constexpr uint32_t kTableRows = 2'000;
constexpr size_t kMaxOoms = 16;
constexpr std::string_view kIndexBegin = "<script type=\"application/json\" id=\"ashlar-index\">";
constexpr std::string_view kResponsesBegin = "<script type=\"text/plain\" id=\"ashlar-responses\">";
constexpr std::string_view kScriptEnd = "</script>\n";

using Requests = std::vector<std::string>;

// The responses added so far, and the size limit.
class ResponseArchive {
 public:
  ResponseArchive(const Viewer& view, size_t max_bytes) : view_(view), max_bytes_(max_bytes) {}

  // Adds the response to a request, unless the request fails.
  void add(const std::string& request) {
    const http::Response found = respond(request);
    if (found.code == 200) append(request, found.body);
  }
  void append(const std::string& request, std::string_view plain) {
    const std::string packed = compress(plain);
    index_ += text(index_.empty() ? "" : ", ", "\"", request, "\": [", bytes_.size(), ", ",
                   packed.size(), "]");
    bytes_ += packed;
  }

  // Adds the responses to all requests. If they do not all fit, returns false and adds no response.
  bool try_add(const Requests& requests) {
    const size_t index_before = index_.size();
    const size_t bytes_before = bytes_.size();
    for (const std::string& request : requests) {
      add(request);
      if (size() <= max_bytes_) continue;
      index_.resize(index_before);
      bytes_.resize(bytes_before);
      return false;
    }
    return true;
  }

  const JsonAnalyses& analyses() const { return view_.analyses(); }
  // Returns the size of to_text().
  size_t size() const { return index_.size() + (bytes_.size() + 2) / 3 * 4 + kMarkupBytes; }
  std::string to_text() const {
    return text(kIndexBegin, "{", index_, "}", kScriptEnd, kResponsesBegin, base64(bytes_),
                kScriptEnd);
  }

 private:
  static constexpr size_t kMarkupBytes =
      kIndexBegin.size() + kResponsesBegin.size() + 2 * kScriptEnd.size() + 2;

  http::Response respond(const std::string& request) const {
    const size_t mark = std::min(request.find('?'), request.size());
    const std::string_view all = request;
    return view_.wait_for_response(all.substr(0, mark), all.substr(std::min(mark + 1, all.size())));
  }

  const Viewer& view_;
  const size_t max_bytes_;
  std::string index_{};
  std::string bytes_{};
};

constexpr const char* kGroupings[] = {"allocation", "stack", "stream", "pool", "category"};

Requests tile_requests(const Document& document, size_t number, const char* by, uint32_t level) {
  Requests requests;
  const uint32_t count = tile_count(document.entry_count(), level);
  for (uint32_t index = 0; index < count; ++index) {
    requests.push_back(
        text("d/", number, "/tile?by=", by, "&level=", level, "&index=", index, "&detail=0"));
  }
  return requests;
}

Requests table_requests(size_t number) {
  Requests requests;
  for (const char* sort : {"bytes", "made", "freed", "age"}) {
    for (const char* order : {"down", "up"}) {
      requests.push_back(text("d/", number, "/allocations?sort=", sort, "&order=", order,
                              "&from=0&count=", kTableRows, "&at=all&search="));
    }
  }
  return requests;
}

// Adds the responses for one document.
class DocumentArchiver {
 public:
  DocumentArchiver(const Document& document, size_t number, ResponseArchive& archive)
      : document_(document), number_(number), archive_(archive) {}

  void add_required() {
    archive_.add(text("d/", number_, "/stacks.json"));
    for (const auto& [name, analysis] : archive_.analyses().by_name) {
      archive_.add(text("d/", number_, "/", name));
    }
    archive_.add(tile_requests(document_, number_, kGroupings[0], 0).front());
  }

  void add_sources() {
    if (!archive_.analyses().source) return;
    for (size_t file = 0; file < kMaxSourceFiles; ++file) {
      static_cast<void>(archive_.try_add({text("d/", number_, "/source.json?file=", file)}));
    }
  }

  void add_tables() { static_cast<void>(archive_.try_add(table_requests(number_))); }
  void add_times() { static_cast<void>(archive_.try_add({text("d/", number_, "/times")})); }

  // Adds a level of a grouping, if all levels above it were added.
  void add_level(size_t grouping, uint32_t level) {
    if (level >= level_count(document_.entry_count()) || is_full_[grouping]) return;
    if (grouping == 0 && level == 0) return;  // added by add_required()
    is_full_[grouping] =
        !archive_.try_add(tile_requests(document_, number_, kGroupings[grouping], level));
  }

  // Adds the most important moments: the peaks, the end, and the first out-of-memory errors.
  void add_peaks() {
    add_moment(document_.peak());
    add_moment(document_.reserved_peak());
    add_moment(document_.entry_count() - 1);
    size_t ooms = 0;
    for (uint32_t i = 0; i < document_.entry_count() && ooms < kMaxOoms; ++i) {
      if (document_.trace()[i].action != TraceAction::kOom) continue;
      add_moment(i);
      ++ooms;
    }
  }

  // Adds `count` moments, evenly distributed over the columns of the topmost tile.
  void add_moments(size_t count) {
    const std::vector<uint32_t> columns = tile_moments(document_, {});
    for (size_t i = 0; i < count; ++i) add_moment(columns[i * columns.size() / count]);
  }

  SceneDocument scene() const {
    return {.document = &document_, .moments = std::vector(moments_.begin(), moments_.end())};
  }

 private:
  void add_moment(uint32_t moment) {
    if (moments_.contains(moment)) return;
    const bool is_added = archive_.try_add(
        {text("d/", number_, "/map?at=", moment), text("d/", number_, "/stacks?at=", moment)});
    if (is_added) moments_.insert(moment);
  }

  const Document& document_;
  size_t number_;
  ResponseArchive& archive_;
  std::set<uint32_t> moments_{};
  bool is_full_[std::size(kGroupings)]{};
};

void fill(std::vector<DocumentArchiver>& documents) {
  constexpr uint32_t kMaxLevels = 33;
  const auto for_each = [&](auto function) {
    for (DocumentArchiver& document : documents) function(document);
  };
  const auto add_levels = [&](uint32_t begin, uint32_t end) {
    for (uint32_t level = begin; level < end; ++level) {
      for (size_t by = 0; by < std::size(kGroupings); ++by) {
        for_each([&](DocumentArchiver& document) { document.add_level(by, level); });
      }
    }
  };
  for_each([](DocumentArchiver& document) { document.add_required(); });
  for_each([](DocumentArchiver& document) { document.add_peaks(); });
  add_levels(0, 1);
  for_each([](DocumentArchiver& document) { document.add_times(); });
  for_each([](DocumentArchiver& document) { document.add_sources(); });
  for_each([](DocumentArchiver& document) { document.add_tables(); });
  for_each([](DocumentArchiver& document) { document.add_moments(16); });
  add_levels(1, 3);
  for_each([](DocumentArchiver& document) { document.add_moments(64); });
  add_levels(3, 5);
  for_each([](DocumentArchiver& document) { document.add_moments(256); });
  add_levels(5, kMaxLevels);
}

}  // namespace

Result<std::string> self_contained_page(const Viewer& view, std::string_view page,
                                        size_t max_bytes) {
  const size_t marker = page.find(kResponsesMarker);
  if (marker == std::string_view::npos) {
    return Status::invalid_argument(
        text("the page has no marker for responses (expected ", kResponsesMarker, ")"));
  }
  const std::vector<const Document*> documents = view.documents();
  // The scene lists the moments that were added, so the scene is written last. Its size is
  // estimated from a scene without moments.
  std::vector<SceneDocument> plain;
  for (const Document* document : documents) plain.push_back({.document = document});
  const size_t scene_bytes =
      2 * compress(scene_json(plain, {.program = view.program()})).size() + 4096;
  const size_t used_bytes = page.size() + scene_bytes;
  ResponseArchive archive(view, max_bytes - std::min(max_bytes, used_bytes));
  std::vector<DocumentArchiver> archives;
  for (size_t i = 0; i < documents.size(); ++i) archives.emplace_back(*documents[i], i, archive);
  fill(archives);
  std::vector<SceneDocument> shown;
  for (const DocumentArchiver& each : archives) shown.push_back(each.scene());
  archive.append("scene.json", scene_json(shown, {.program = view.program()}));
  return text(page.substr(0, marker), archive.to_text(),
              page.substr(marker + kResponsesMarker.size()));
}

std::string compress(std::string_view bytes) {
  uLongf packed_bytes = ::compressBound(bytes.size());
  std::string packed(packed_bytes, '\0');
  const int code = ::compress2(reinterpret_cast<Bytef*>(packed.data()), &packed_bytes,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                               Z_DEFAULT_COMPRESSION);
  ASHLAR_CHECK(code == Z_OK);
  packed.resize(packed_bytes);
  return packed;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    }
    const size_t given = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 4; ++k) {
      out += k <= given ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

}  // namespace ashlar::view
