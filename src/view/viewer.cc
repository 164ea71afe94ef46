// SPDX-License-Identifier: Apache-2.0
//
// Parses requests, validates their arguments and dispatches them.
#include "view/viewer.h"

#include <charconv>
#include <optional>

#include "analysis/training/categories.h"
#include "base/text.h"
#include "http/request.h"
#include "view/address_map.h"
#include "view/columns.h"
#include "view/scene.h"
#include "view/stacks.h"
#include "view/timeline_tile.h"

namespace ashlar::view {
namespace {

using http::error_response;
using http::Response;

constexpr std::string_view kColumnsType = "application/octet-stream";
constexpr size_t kMaxSearchBytes = 1024;
constexpr size_t kMaxTimePoints = 8192;
constexpr std::string_view kUnknown = "unknown request";

Response columns(std::string body) {
  return {.code = 200, .type = kColumnsType, .body = std::move(body)};
}
Response json(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

std::optional<uint32_t> number(std::optional<std::string_view> text) {
  if (!text || text->empty()) return std::nullopt;
  uint32_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// Parses and validates the arguments of a request, and remembers the first error.
class Arguments {
 public:
  explicit Arguments(std::string_view query) : query_(query) {}

  // Returns an integer below `end`.
  uint32_t integer_below(std::string_view name, uint64_t end) {
    const std::optional<uint32_t> value = number(http::query_argument(query_, name));
    if (value && *value < end) return *value;
    if (error_.empty()) {
      error_ = text(name, " is not an integer below ", end);
    }
    return 0;
  }

  // Returns the index in `known` of the argument's value.
  size_t choice(std::string_view name, std::initializer_list<std::string_view> known) {
    const std::optional<std::string_view> value = http::query_argument(query_, name);
    size_t index = 0;
    for (const std::string_view each : known) {
      if (value == each) return index;
      ++index;
    }
    if (error_.empty()) error_ = text(name, " is missing or has an unknown value");
    return 0;
  }

  std::string decoded(std::string_view name) {
    const std::optional<std::string_view> value = http::query_argument(query_, name);
    std::optional<std::string> plain;
    if (value && value->size() <= kMaxSearchBytes) plain = http::percent_decoded(*value);
    if (!plain && error_.empty())
      error_ = text(name, " is missing, too long, or not percent-encoded");
    return plain.value_or("");
  }

  bool has(std::string_view name) const { return http::query_argument(query_, name).has_value(); }
  bool equals(std::string_view name, std::string_view value) const {
    return http::query_argument(query_, name) == value;
  }

  bool ok() const { return error_.empty(); }
  Response to_response() const { return error_response(400, error_); }

 private:
  std::string_view query_;
  std::string error_{};
};

Response tile_response(const Document& document, Arguments arguments) {
  const size_t by = arguments.choice("by", {"allocation", "stack", "stream", "pool", "category"});
  const uint32_t entries = document.entry_count();
  const uint32_t level = arguments.integer_below("level", level_count(entries));
  const uint32_t index = arguments.integer_below("index", tile_count(entries, level));
  const uint32_t detail = arguments.integer_below("detail", by == 0 ? kMaxDetail + 1 : 1);
  if (!arguments.ok()) return arguments.to_response();
  const TileId tile{level, index};
  if (by == 0) return columns(tile_by_allocation(document, tile, detail));
  return columns(tile_by_group(document, tile, static_cast<Grouping>(by - 1)));
}

Response table_response(const Document& document, const AllocationTable& table,
                        Arguments arguments) {
  TableQuery query;
  query.sort = static_cast<SortKey>(arguments.choice("sort", {"bytes", "made", "freed", "age"}));
  query.descends = arguments.choice("order", {"up", "down"}) == 1;
  query.from = arguments.integer_below("from", uint64_t{1} << 32);
  query.count = arguments.integer_below("count", kMaxTableRows + 1);
  if (!arguments.equals("at", "all")) {
    query.moment = arguments.integer_below("at", document.entry_count());
  }
  query.search = arguments.decoded("search");
  if (arguments.has("category")) {
    query.category = static_cast<uint8_t>(arguments.integer_below("category", kCategoryCount));
  }
  return arguments.ok() ? columns(table.rows(query)) : arguments.to_response();
}

std::string time_columns(const Document& document) {
  const std::vector<TimePoint> points = document.times(kMaxTimePoints);
  Columns columns;
  columns.add("entry", points, [](const TimePoint& each) { return each.entry; });
  columns.add("time_us", points, [](const TimePoint& each) { return each.time_us; });
  return columns.take();
}

}  // namespace

Result<std::vector<uint32_t>> Viewer::add(const std::shared_ptr<const Recording>& recording) {
  std::vector<std::unique_ptr<const LoadedDocument>> made;
  for (const DeviceIndex device : recording->devices()) {
    made.push_back(std::make_unique<const LoadedDocument>(Document(recording, device)));
  }
  MutexLock lock(mutex_);
  if (documents_.size() + made.size() > kMaxDocuments) {
    return Status::invalid_argument(text(
        recording->name(), ": cannot add ", made.size(), " devices to the ", documents_.size(),
        " that are open (expected at most ", kMaxDocuments, " in total); start another viewer"));
  }
  std::vector<uint32_t> numbers;
  for (std::unique_ptr<const LoadedDocument>& each : made) {
    numbers.push_back(static_cast<uint32_t>(documents_.size()));
    documents_.push_back(std::move(each));
  }
  return numbers;
}

Response Viewer::respond(std::string_view path, std::string_view query) const {
  if (path == "scene.json") return scene();
  const ResolvedPath found = find(path);
  if (found.loaded == nullptr) {
    return error_response(404, path.starts_with("d/") ? "no such document" : kUnknown);
  }
  const Document& document = found.loaded->document;
  const AllocationTable& table = found.loaded->table;
  Arguments arguments(query);
  if (found.resource == "tile") return tile_response(document, arguments);
  if (found.resource == "times") return columns(time_columns(document));
  if (found.resource == "stacks.json") return json(stacks_json(document));
  if (found.resource == "source.json") return source(document, query);
  if (analyses_.by_name.contains(found.resource)) return worker_.poll(document, found.resource);
  if (found.resource == "allocations") return table_response(document, table, arguments);
  if (found.resource == "allocation") {
    const uint32_t id = arguments.integer_below("id", document.allocations().all.size());
    return arguments.ok() ? columns(table.row(id)) : arguments.to_response();
  }
  if (found.resource != "map" && found.resource != "stacks") return error_response(404, kUnknown);
  const uint32_t moment = arguments.integer_below("at", document.entry_count());
  if (!arguments.ok()) return arguments.to_response();
  return columns(found.resource == "map" ? map_columns(document, moment)
                                         : stack_columns(document, moment));
}

Response Viewer::wait_for_response(std::string_view path, std::string_view query) const {
  const ResolvedPath found = find(path);
  const bool takes_long = found.loaded != nullptr && analyses_.by_name.contains(found.resource);
  return takes_long ? worker_.wait(found.loaded->document, found.resource) : respond(path, query);
}

std::vector<const Document*> Viewer::documents() const {
  MutexLock lock(mutex_);
  std::vector<const Document*> all;
  for (const auto& each : documents_) all.push_back(&each->document);
  return all;
}

// Resolves a path such as "d/0/tile".
Viewer::ResolvedPath Viewer::find(std::string_view path) const {
  if (!path.starts_with("d/")) return {};
  const size_t slash = std::min(path.find('/', 2), path.size());
  const std::optional<uint32_t> wanted = number(path.substr(2, slash - 2));
  MutexLock lock(mutex_);
  if (!wanted || *wanted >= documents_.size()) return {};
  return {documents_[*wanted].get(), path.substr(std::min(slash + 1, path.size()))};
}

Response Viewer::source(const Document& document, std::string_view query) const {
  Arguments arguments(query);
  const uint32_t file = arguments.integer_below("file", uint64_t{1} << 32);
  if (!arguments.ok()) return arguments.to_response();
  if (!analyses_.source) {
    return error_response(404, "no source was given; see --source in `ashlar help view`");
  }
  Result<std::string> found = analyses_.source(document.device_recording(), file);
  if (!found.ok()) return error_response(404, found.status().message());
  return json(*std::move(found));
}

Response Viewer::scene() const {
  std::vector<SceneDocument> shown;
  for (const Document* document : documents()) shown.push_back({.document = document});
  return json(scene_json(shown, {.program = program_, .live = live_}));
}

}  // namespace ashlar::view
