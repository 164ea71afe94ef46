// SPDX-License-Identifier: Apache-2.0
//
// Serves the page and the loading state, opens uploads as documents, and forwards live requests.
#include "view/viewer_handler.h"

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

constexpr uint64_t kMaxUploadBytes = uint64_t{16} << 30;  // size before decompression

Response json(int code, const Json& value) {
  Response response;
  response.code = code;
  response.body = json_text(value);
  return response;
}

// Returns the HTTP status for a failure. 410 tells the page to stop polling.
int code_for(const Status& failure) { return failure.is(StatusKind::kPeerLost) ? 410 : 503; }

}  // namespace

void ViewerHandler::set_progress(std::string what, double fraction) {
  MutexLock lock(mutex_);
  loading_text_ = std::move(what);
  loading_fraction_ = fraction;
}

void ViewerHandler::finish_loading() {
  MutexLock lock(mutex_);
  is_loading_ = false;
}

void ViewerHandler::set_error(std::string message) {
  MutexLock lock(mutex_);
  failure_ = std::move(message);
}

bool ViewerHandler::has_been_requested() const {
  MutexLock lock(mutex_);
  return has_been_requested_;
}

bool ViewerHandler::has_content() const {
  MutexLock lock(mutex_);
  return !is_loading_;
}

Response ViewerHandler::handle(const Request& request) {
  bool is_loading = false;
  {
    MutexLock lock(mutex_);
    has_been_requested_ = true;
    is_loading = is_loading_;
  }
  if (request.path.empty()) {
    if (page_.empty())
      return error_response(404, "this build has no viewer page; see ashlar view --help");
    return {.code = 200, .type = "text/html; charset=utf-8", .body = page_};
  }
  if (is_loading && request.path == "scene.json") return loading_response();
  if (live_ != nullptr && request.path == "live.json") return live_response();
  return viewer_.respond(request.path, request.query);
}

Response ViewerHandler::loading_response() {
  MutexLock lock(mutex_);
  if (failure_.empty()) return json(202, {{"loading", loading_text_}, {"done", loading_fraction_}});
  return error_response(400, failure_);
}

Response ViewerHandler::live_response() {
  Result<std::string> numbers = live_->stats();
  if (!numbers.ok()) return error_response(code_for(numbers.status()), numbers.status().message());
  Response response;
  response.body = *std::move(numbers);
  return response;
}

Response ViewerHandler::take_snapshots() {
  const auto recordings = live_->take_snapshots();
  if (!recordings.ok())
    return error_response(code_for(recordings.status()), recordings.status().message());
  std::vector<uint32_t> numbers;
  for (const std::shared_ptr<const Recording>& each : *recordings) {
    const Result<std::vector<uint32_t>> added = viewer_.add(each);
    if (!added.ok()) return error_response(400, added.status().message());
    numbers.insert(numbers.end(), added->begin(), added->end());
  }
  return json(200, {{"documents", numbers}});
}

uint64_t ViewerHandler::max_body_bytes(const Request& request) const {
  if (live_ != nullptr && request.path == "live/snapshot") return 1;  // the body is ignored
  return request.path == "open" ? kMaxUploadBytes : 0;
}

Response ViewerHandler::handle(const Request& request, std::unique_ptr<ByteSource> body) {
  return request.path == "open" ? open_upload(request, std::move(body)) : take_snapshots();
}

Response ViewerHandler::open_upload(const Request& request, std::unique_ptr<ByteSource> body) {
  const std::optional<std::string_view> name = http::query_argument(request.query, "name");
  const std::optional<std::string> plain = name ? http::percent_decoded(*name) : std::nullopt;
  if (!plain || plain->empty())
    return error_response(400, "name is missing or not percent-encoded");
  Result<Snapshot> snapshot = read_snapshot(*plain, std::move(body));
  if (!snapshot.ok()) return json(400, {{"error", snapshot.status().message()}});
  const Result<std::vector<uint32_t>> numbers =
      viewer_.add(Recording::create(*plain, *std::move(snapshot)));
  if (!numbers.ok()) return json(400, {{"error", numbers.status().message()}});
  MutexLock lock(mutex_);
  // An earlier loading error no longer matters once a document can be shown.
  if (!failure_.empty()) is_loading_ = false;
  return json(200, {{"documents", *numbers}});
}

}  // namespace ashlar::view
