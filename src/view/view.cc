// SPDX-License-Identifier: Apache-2.0
//
// A question is taken apart, its arguments are checked, and the file that knows is asked.
#include "view/view.h"

#include <charconv>
#include <optional>

#include "base/text.h"
#include "http/request.h"
#include "view/address_map.h"
#include "view/scene.h"
#include "view/stack_use.h"
#include "view/tile.h"

namespace ashlar::view {
namespace {

using http::error_response;
using http::Response;

constexpr std::string_view kColumnsType = "application/octet-stream";
constexpr size_t kMostSearchBytes = 1024;
constexpr std::string_view kUnknown = "nobody knows that question";

Response columns(std::string body) {
  return {.code = 200, .type = kColumnsType, .body = std::move(body)};
}
Response json(std::string body) {
  Response answer;
  answer.body = std::move(body);
  return answer;
}

std::optional<uint32_t> number(std::optional<std::string_view> text) {
  if (!text || text->empty()) return std::nullopt;
  uint32_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// The arguments of one question; the first that is wrong is remembered.
class Arguments {
 public:
  explicit Arguments(std::string_view query) : query_(query) {}

  // Below `end`.
  uint32_t natural(std::string_view name, uint64_t end) {
    const std::optional<uint32_t> value = number(http::argument(query_, name));
    if (value && *value < end) return *value;
    if (why_.empty()) {
      why_ = text(name, " is not a whole number below ", end);
    }
    return 0;
  }

  // The position of the word.
  size_t word(std::string_view name, std::initializer_list<std::string_view> known) {
    const std::optional<std::string_view> value = http::argument(query_, name);
    size_t place = 0;
    for (const std::string_view each : known) {
      if (value == each) return place;
      ++place;
    }
    if (why_.empty()) why_ = text(name, " is none of the words that are known here");
    return 0;
  }

  std::string decoded(std::string_view name) {
    const std::optional<std::string_view> value = http::argument(query_, name);
    std::optional<std::string> plain;
    if (value && value->size() <= kMostSearchBytes) plain = http::percent_decoded(*value);
    if (!plain && why_.empty()) why_ = text(name, " is missing, too long, or wrongly encoded");
    return plain.value_or("");
  }

  bool is(std::string_view name, std::string_view value) const {
    return http::argument(query_, name) == value;
  }

  bool ok() const { return why_.empty(); }
  Response refused() const { return error_response(400, why_); }

 private:
  std::string_view query_;
  std::string why_{};
};

Response answer_tile(const Document& document, Arguments arguments) {
  const size_t by = arguments.word("by", {"allocation", "stack", "stream", "pool"});
  const uint32_t entries = document.entry_count();
  const uint32_t level = arguments.natural("level", level_count(entries));
  const uint32_t index = arguments.natural("index", tile_count(entries, level));
  const uint32_t detail = arguments.natural("detail", by == 0 ? kMostDetail + 1 : 1);
  if (!arguments.ok()) return arguments.refused();
  const TilePlace place{level, index};
  if (by == 0) return columns(tile_by_allocation(document, place, detail));
  return columns(tile_by_group(document, place, static_cast<Grouping>(by - 1)));
}

Response answer_table(const Document& document, const AllocationTable& table, Arguments arguments) {
  TableQuestion question;
  question.sort = static_cast<SortKey>(arguments.word("sort", {"bytes", "made", "freed", "age"}));
  question.descends = arguments.word("order", {"up", "down"}) == 1;
  question.from = arguments.natural("from", uint64_t{1} << 32);
  question.count = arguments.natural("count", kMostTableRows + 1);
  if (!arguments.is("at", "all")) {
    question.moment = arguments.natural("at", document.entry_count());
  }
  question.search = arguments.decoded("search");
  return arguments.ok() ? columns(table.rows(question)) : arguments.refused();
}

}  // namespace

Result<std::vector<uint32_t>> View::add(const std::shared_ptr<const Recording>& recording) {
  std::vector<std::unique_ptr<const Exhibit>> made;
  for (const DeviceIndex device : recording->devices()) {
    made.push_back(std::make_unique<const Exhibit>(Document(recording, device)));
  }
  MutexLock lock(mutex_);
  if (exhibits_.size() + made.size() > kMostDocuments) {
    return Status::invalid_argument(text("there are ", exhibits_.size(),
                                         " documents already (expected ", kMostDocuments,
                                         " at most): start another view"));
  }
  std::vector<uint32_t> numbers;
  for (std::unique_ptr<const Exhibit>& each : made) {
    numbers.push_back(static_cast<uint32_t>(exhibits_.size()));
    exhibits_.push_back(std::move(each));
  }
  return numbers;
}

Response View::answer(std::string_view path, std::string_view query) const {
  if (path == "scene.json") return scene();
  const Found found = find(path);
  if (found.exhibit == nullptr) {
    return error_response(404, path.starts_with("d/") ? "there is no such document" : kUnknown);
  }
  const Document& document = found.exhibit->document;
  const AllocationTable& table = found.exhibit->table;
  Arguments arguments(query);
  if (found.what == "tile") return answer_tile(document, arguments);
  if (found.what == "stacks.json") return json(stacks_json(document));
  if (found.what == "causes.json") return explanations_.of(document);
  if (found.what == "allocations") return answer_table(document, table, arguments);
  if (found.what == "allocation") {
    const uint32_t id = arguments.natural("id", document.allocations().all.size());
    return arguments.ok() ? columns(table.row(id)) : arguments.refused();
  }
  if (found.what != "map" && found.what != "stacks") return error_response(404, kUnknown);
  const uint32_t moment = arguments.natural("at", document.entry_count());
  if (!arguments.ok()) return arguments.refused();
  return columns(found.what == "map" ? map_at(document, moment) : stacks_at(document, moment));
}

Response View::wait_for_answer(std::string_view path, std::string_view query) const {
  const Found found = find(path);
  const bool takes_long = found.exhibit != nullptr && found.what == "causes.json";
  return takes_long ? explanations_.wait_for(found.exhibit->document) : answer(path, query);
}

std::vector<const Document*> View::documents() const {
  MutexLock lock(mutex_);
  std::vector<const Document*> all;
  for (const auto& each : exhibits_) all.push_back(&each->document);
  return all;
}

// "d/0/tile"
View::Found View::find(std::string_view path) const {
  if (!path.starts_with("d/")) return {};
  const size_t slash = std::min(path.find('/', 2), path.size());
  const std::optional<uint32_t> wanted = number(path.substr(2, slash - 2));
  MutexLock lock(mutex_);
  if (!wanted || *wanted >= exhibits_.size()) return {};
  return {exhibits_[*wanted].get(), path.substr(std::min(slash + 1, path.size()))};
}

Response View::scene() const {
  std::vector<SceneDocument> shown;
  for (const Document* document : documents()) shown.push_back({.document = document});
  return json(scene_json(shown, {.program = program_, .live = live_}));
}

}  // namespace ashlar::view
