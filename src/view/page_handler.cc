// SPDX-License-Identifier: Apache-2.0
//
// The page itself, what is said while there is nothing to show, and files that come in.
#include "view/page_handler.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "analysis/recording.h"
#include "view/json_text.h"

namespace ashlar::view {
namespace {

using http::error_response;
using http::Request;
using http::Response;
using Json = nlohmann::ordered_json;

constexpr uint64_t kMostFileBytes = uint64_t{16} << 30;  // as sent

Response json(int code, const Json& value) {
  Response answer;
  answer.code = code;
  answer.body = json_text(value);
  return answer;
}

// Whether it is worth asking again.
int code_for(const Status& failure) { return failure.is(StatusKind::kPeerLost) ? 410 : 503; }

}  // namespace

void PageHandler::show_progress(std::string what, double share) {
  MutexLock lock(mutex_);
  doing_ = std::move(what);
  share_ = share;
}

void PageHandler::finish_loading() {
  MutexLock lock(mutex_);
  is_loading_ = false;
}

void PageHandler::fail(std::string why) {
  MutexLock lock(mutex_);
  failure_ = std::move(why);
}

bool PageHandler::was_asked() const {
  MutexLock lock(mutex_);
  return was_asked_;
}

bool PageHandler::is_showing() const {
  MutexLock lock(mutex_);
  return !is_loading_;
}

Response PageHandler::handle(const Request& request) {
  bool is_loading = false;
  {
    MutexLock lock(mutex_);
    was_asked_ = true;
    is_loading = is_loading_;
  }
  if (request.path.empty()) {
    if (page_.empty()) return error_response(404, "this build has no page; see ashlar view --help");
    return {.code = 200, .type = "text/html; charset=utf-8", .body = page_};
  }
  if (is_loading && request.path == "scene.json") return answer_loading();
  if (live_ != nullptr && request.path == "live.json") return answer_live();
  return view_.answer(request.path, request.query);
}

Response PageHandler::answer_loading() {
  MutexLock lock(mutex_);
  if (failure_.empty()) return json(202, {{"loading", doing_}, {"done", share_}});
  return error_response(400, failure_);
}

Response PageHandler::answer_live() {
  Result<std::string> numbers = live_->numbers();
  if (!numbers.ok()) return error_response(code_for(numbers.status()), numbers.status().message());
  Response answer;
  answer.body = *std::move(numbers);
  return answer;
}

Response PageHandler::take_snapshots() {
  const auto taken = live_->take_snapshots();
  if (!taken.ok()) return error_response(code_for(taken.status()), taken.status().message());
  std::vector<uint32_t> numbers;
  for (const std::shared_ptr<const Recording>& each : *taken) {
    const Result<std::vector<uint32_t>> added = view_.add(each);
    if (!added.ok()) return error_response(400, added.status().message());
    numbers.insert(numbers.end(), added->begin(), added->end());
  }
  return json(200, {{"documents", numbers}});
}

uint64_t PageHandler::max_body_bytes(const Request& request) const {
  if (live_ != nullptr && request.path == "live/snapshot") return 1;  // nothing has to be said
  return request.path == "open" ? kMostFileBytes : 0;
}

Response PageHandler::handle(const Request& request, std::unique_ptr<ByteSource> body) {
  return request.path == "open" ? read_sent(request, std::move(body)) : take_snapshots();
}

Response PageHandler::read_sent(const Request& request, std::unique_ptr<ByteSource> body) {
  const std::optional<std::string_view> name = http::argument(request.query, "name");
  const std::optional<std::string> plain = name ? http::percent_decoded(*name) : std::nullopt;
  if (!plain || plain->empty()) return error_response(400, "name is missing or wrongly encoded");
  Result<Snapshot> snapshot = read_snapshot(*plain, std::move(body));
  if (!snapshot.ok()) return json(400, {{"error", snapshot.status().message()}});
  const Result<std::vector<uint32_t>> numbers =
      view_.add(Recording::create(*plain, *std::move(snapshot)));
  if (!numbers.ok()) return json(400, {{"error", numbers.status().message()}});
  MutexLock lock(mutex_);
  // What could not be read at the start is past as soon as there is something else to show.
  if (!failure_.empty()) is_loading_ = false;
  return json(200, {{"documents", *numbers}});
}

}  // namespace ashlar::view
