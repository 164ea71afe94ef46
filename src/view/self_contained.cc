// SPDX-License-Identifier: Apache-2.0
//
// Answers are added step by step. A step is there as a whole or not at all, so that a level of
// tiles has no holes.
#include "view/self_contained.h"

#include <zlib.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "view/scene.h"
#include "view/tile.h"

namespace ashlar::view {
namespace {

constexpr uint32_t kTableRows = 2'000;
constexpr size_t kMostOoms = 16;
constexpr std::string_view kIndexBegin = "<script type=\"application/json\" id=\"ashlar-index\">";
constexpr std::string_view kAnswersBegin = "<script type=\"text/plain\" id=\"ashlar-answers\">";
constexpr std::string_view kScriptEnd = "</script>\n";

using Questions = std::vector<std::string>;

// The answers so far, and how much room they leave.
class Pack {
 public:
  Pack(const View& view, size_t most_bytes) : view_(view), most_bytes_(most_bytes) {}

  // What is refused is not there: the page says so itself.
  void add(const std::string& question) {
    const http::Response found = answer(question);
    if (found.code == 200) append(question, found.body);
  }
  void append(const std::string& question, std::string_view plain) {
    const std::string packed = compress(plain);
    index_ += text(index_.empty() ? "" : ", ", "\"", question, "\": [", bytes_.size(), ", ",
                   packed.size(), "]");
    bytes_ += packed;
  }

  // False: there is no room for all of them, and none was added.
  bool try_add(const Questions& questions) {
    const size_t index_before = index_.size();
    const size_t bytes_before = bytes_.size();
    for (const std::string& question : questions) {
      add(question);
      if (size() <= most_bytes_) continue;
      index_.resize(index_before);
      bytes_.resize(bytes_before);
      return false;
    }
    return true;
  }

  // As it will be written.
  size_t size() const { return index_.size() + (bytes_.size() + 2) / 3 * 4 + kAroundBytes; }
  std::string to_text() const {
    return text(kIndexBegin, "{", index_, "}", kScriptEnd, kAnswersBegin, base64(bytes_),
                kScriptEnd);
  }

 private:
  static constexpr size_t kAroundBytes =
      kIndexBegin.size() + kAnswersBegin.size() + 2 * kScriptEnd.size() + 2;

  http::Response answer(const std::string& question) const {
    const size_t mark = std::min(question.find('?'), question.size());
    const std::string_view all = question;
    return view_.wait_for_answer(all.substr(0, mark), all.substr(std::min(mark + 1, all.size())));
  }

  const View& view_;
  const size_t most_bytes_;
  std::string index_{};
  std::string bytes_{};
};

constexpr const char* kGroupings[] = {"allocation", "stack", "stream", "pool"};

Questions tiles_of(const Document& document, size_t number, const char* by, uint32_t level) {
  Questions questions;
  const uint32_t count = tile_count(document.entry_count(), level);
  for (uint32_t index = 0; index < count; ++index) {
    questions.push_back(
        text("d/", number, "/tile?by=", by, "&level=", level, "&index=", index, "&detail=0"));
  }
  return questions;
}

Questions tables_of(size_t number) {
  Questions questions;
  for (const char* sort : {"bytes", "made", "freed", "age"}) {
    for (const char* order : {"down", "up"}) {
      questions.push_back(text("d/", number, "/allocations?sort=", sort, "&order=", order,
                               "&from=0&count=", kTableRows, "&at=all&search="));
    }
  }
  return questions;
}

// What is packed of one document, and how far that is.
class DocumentPack {
 public:
  DocumentPack(const Document& document, size_t number, Pack& pack)
      : document_(document), number_(number), pack_(pack) {}

  void add_what_must_be() {
    pack_.add(text("d/", number_, "/stacks.json"));
    pack_.add(text("d/", number_, "/causes.json"));
    pack_.add(tiles_of(document_, number_, kGroupings[0], 0).front());
  }

  void add_tables() { static_cast<void>(pack_.try_add(tables_of(number_))); }

  // One more level of a grouping, if those above it are there.
  void add_level(size_t grouping, uint32_t level) {
    if (level >= level_count(document_.entry_count()) || is_full_[grouping]) return;
    if (grouping == 0 && level == 0) return;  // is there
    is_full_[grouping] = !pack_.try_add(tiles_of(document_, number_, kGroupings[grouping], level));
  }

  // Those that matter most: the peaks, the end, which is the snapshot itself, and where memory ran
  // out.
  void add_peaks() {
    add_moment(document_.peak());
    add_moment(document_.reserved_peak());
    add_moment(document_.entry_count() - 1);
    size_t ooms = 0;
    for (uint32_t i = 0; i < document_.entry_count() && ooms < kMostOoms; ++i) {
      if (document_.trace()[i].action != TraceAction::kOom) continue;
      add_moment(i);
      ++ooms;
    }
  }

  // So many, evenly over the run, each where a column of the whole has its highest point.
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
    const bool is_added = pack_.try_add(
        {text("d/", number_, "/map?at=", moment), text("d/", number_, "/stacks?at=", moment)});
    if (is_added) moments_.insert(moment);
  }

  const Document& document_;
  size_t number_;
  Pack& pack_;
  std::set<uint32_t> moments_{};
  bool is_full_[std::size(kGroupings)]{};
};

void fill(std::vector<DocumentPack>& documents) {
  constexpr uint32_t kMostLevels = 33;
  const auto for_each = [&](auto act) {
    for (DocumentPack& document : documents) act(document);
  };
  const auto add_levels = [&](uint32_t begin, uint32_t end) {
    for (uint32_t level = begin; level < end; ++level) {
      for (size_t by = 0; by < std::size(kGroupings); ++by) {
        for_each([&](DocumentPack& document) { document.add_level(by, level); });
      }
    }
  };
  for_each([](DocumentPack& document) { document.add_what_must_be(); });
  for_each([](DocumentPack& document) { document.add_peaks(); });
  add_levels(0, 1);
  for_each([](DocumentPack& document) { document.add_tables(); });
  for_each([](DocumentPack& document) { document.add_moments(16); });
  add_levels(1, 3);
  for_each([](DocumentPack& document) { document.add_moments(64); });
  add_levels(3, 5);
  for_each([](DocumentPack& document) { document.add_moments(256); });
  add_levels(5, kMostLevels);
}

}  // namespace

Result<std::string> self_contained(const View& view, std::string_view page, size_t most_bytes) {
  const size_t place = page.find(kAnswersMark);
  if (place == std::string_view::npos) {
    return Status::invalid_argument(
        text("the page has no place for answers (expected ", kAnswersMark, ")"));
  }
  const std::vector<const Document*> documents = view.documents();
  // The scene comes last, when it is known what is there; its marks are most of it.
  std::vector<SceneDocument> plain;
  for (const Document* document : documents) plain.push_back({.document = document});
  const size_t scene_bytes =
      2 * compress(scene_json(plain, {.program = view.program()})).size() + 4096;
  const size_t taken = page.size() + scene_bytes;
  Pack pack(view, most_bytes - std::min(most_bytes, taken));
  std::vector<DocumentPack> packs;
  for (size_t i = 0; i < documents.size(); ++i) packs.emplace_back(*documents[i], i, pack);
  fill(packs);
  std::vector<SceneDocument> shown;
  for (const DocumentPack& each : packs) shown.push_back(each.scene());
  pack.append("scene.json", scene_json(shown, {.program = view.program()}));
  return text(page.substr(0, place), pack.to_text(), page.substr(place + kAnswersMark.size()));
}

std::string compress(std::string_view bytes) {
  uLongf room = ::compressBound(bytes.size());
  std::string packed(room, '\0');
  const int code = ::compress2(reinterpret_cast<Bytef*>(packed.data()), &room,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                               Z_DEFAULT_COMPRESSION);
  ASHLAR_CHECK(code == Z_OK);
  packed.resize(room);
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
