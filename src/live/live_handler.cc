// SPDX-License-Identifier: Apache-2.0
//
// Routes requests to metrics, statistics and snapshots, and allows one snapshot at a time.
#include "live/live_handler.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "base/text.h"
#include "format/snapshot_pickle.h"
#include "http/request.h"
#include "http/syntax.h"
#include "live/exporters.h"

namespace ashlar::live {
namespace {

using http::error_response;
using http::Request;
using http::Response;

std::string format_list(const std::vector<uint64_t>& numbers) {
  std::string list;
  for (const uint64_t each : numbers) list += text(list.empty() ? "" : ", ", each);
  return list.empty() ? "none" : list;
}

}  // namespace

Response LiveHandler::handle(const Request& request) {
  if (request.path == "metrics") {
    const MetricsFormat format = choose_metrics_format(request.accept);
    return {.code = 200,
            .type = content_type(format),
            .body = format_metrics(source_.status(), format)};
  }
  if (request.path == "stats") {
    return {.code = 200, .type = "application/json", .body = format_stats_json(source_.status())};
  }
  if (request.path == "snapshot") return handle_snapshot(request.query);
  return error_response(404, "not found (expected metrics, stats or snapshot)");
}

Response LiveHandler::handle(const Request& /*request*/, std::unique_ptr<ByteSource> /*body*/) {
  return error_response(405, "POST is not allowed here");
}

Response LiveHandler::handle_snapshot(std::string_view query) {
  const std::vector<uint64_t> numbers = source_.allocator_numbers();
  StatusSource::SnapshotRequest request;
  if (const std::optional<std::string_view> given = http::query_argument(query, "allocator")) {
    const std::optional<uint64_t> number = http::parse_unsigned(*given);
    if (!number) return error_response(400, "allocator is not a whole number");
    request.allocator = *number;
  } else if (numbers.size() == 1) {
    request.allocator = numbers.front();
  } else {
    return error_response(400, text("specify an allocator: ", format_list(numbers)));
  }
  const std::string_view traces = http::query_argument(query, "traces").value_or("1");
  if (traces != "0" && traces != "1") return error_response(400, "traces must be 0 or 1");
  request.include_traces = traces == "1";
  const std::optional<uint64_t> since_us =
      http::parse_unsigned(http::query_argument(query, "since_us").value_or("0"));
  if (!since_us || *since_us > uint64_t{INT64_MAX}) {
    return error_response(400, "since_us is not a time in microseconds");
  }
  request.since_us = static_cast<int64_t>(*since_us);
  // The response owns the permit until all but its last bytes have been sent, so that slow clients
  // cannot accumulate snapshots. An exception releases the permit too.
  const auto permit = std::make_shared<const SnapshotPermit>(*this);
  if (!permit->is_granted()) return error_response(503, "another snapshot is in progress; retry");
  Response response = take_snapshot(request);
  response.keep_until_sent = permit;
  return response;
}

LiveHandler::SnapshotPermit::SnapshotPermit(LiveHandler& handler) : handler_(handler) {
  MutexLock lock(handler_.mutex_);
  is_granted_ = !handler_.is_taking_snapshot_;
  handler_.is_taking_snapshot_ = true;
}

LiveHandler::SnapshotPermit::~SnapshotPermit() {
  if (!is_granted_) return;
  MutexLock lock(handler_.mutex_);
  handler_.is_taking_snapshot_ = false;
}

Response LiveHandler::take_snapshot(const StatusSource::SnapshotRequest& request) {
  Result<Snapshot> taken = source_.snapshot(request);
  if (!taken.ok()) {
    const bool is_unknown = taken.status().is(StatusKind::kInvalidArgument);
    return error_response(is_unknown ? 404 : 503, taken.status().message());
  }
  StringSink sink;
  if (const Status written = write_snapshot_pickle(*taken, sink); !written.ok()) {
    return error_response(500, written.message());
  }
  return {.code = 200, .type = "application/octet-stream", .body = std::move(sink.text)};
}

}  // namespace ashlar::live
