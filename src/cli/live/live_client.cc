// SPDX-License-Identifier: Apache-2.0
//
// Keeps one connection and reopens it when it is lost.
#include "cli/live/live_client.h"

#include "base/text.h"
#include "cli/terminal/stack_text.h"
#include "files/read_snapshot.h"
#include "live/discovery.h"

namespace ashlar {
namespace {

using std::chrono::milliseconds;

// Timeout for statistics, which the process sends immediately unless it is suspended.
constexpr milliseconds kStatsTimeout{1'500};
// A snapshot takes time to create. One timeout applies to each read, the other to the whole
// transfer.
constexpr milliseconds kSnapshotReadTimeout{120'000};
constexpr milliseconds kSnapshotTotalTimeout{3'600'000};
constexpr uint64_t kMaxSnapshotBytes = uint64_t{16} << 30;

http::ClientLimits stats_limits() {
  http::ClientLimits limits;
  limits.timeout = kStatsTimeout;
  limits.total_timeout = 2 * kStatsTimeout;
  return limits;
}

Result<LiveStats> parse_stats_response(const http::ClientResponse& reply) {
  if (reply.code == 200) return parse_live_stats(reply.body);
  return Status::format(text("the process responded with HTTP status ", reply.code, ": ",
                             printable(std::string_view(reply.body).substr(0, 200))));
}

}  // namespace

Status process_ended_error(pid_t pid) {
  return Status::peer_lost(text("process ", pid, " has ended or stopped live monitoring"));
}

Result<LiveStats> LiveClient::get_stats() {
  const Result<http::ClientResponse> reply = request("/stats", stats_limits());
  if (!reply.ok()) return reply.status();
  return parse_stats_response(*reply);
}

Result<Snapshot> LiveClient::take_snapshot(uint64_t allocator) {
  http::ClientLimits limits;
  limits.timeout = kSnapshotReadTimeout;
  limits.total_timeout = kSnapshotTotalTimeout;
  limits.max_body_bytes = kMaxSnapshotBytes;
  const std::string name = text("process ", pid_, ", allocator ", allocator);
  const Result<http::ClientResponse> reply =
      request(text("/snapshot?allocator=", allocator), limits);
  if (!reply.ok()) return reply.status();
  if (reply->code == 404) return Status::invalid_argument(text(name, " no longer exists"));
  if (reply->code != 200) {
    return Status::format(text(name, ": cannot take a snapshot: ",
                               printable(std::string_view(reply->body).substr(0, 200))));
  }
  return read_snapshot(name, std::make_unique<MemorySource>(reply->body));
}

// The server closes idle connections after a minute. Therefore, a request that fails with
// kDeviceFault on an existing connection is sent once more on a new connection.
Result<http::ClientResponse> LiveClient::request(const std::string& target,
                                                 const http::ClientLimits& limits) {
  const bool was_connected = client_.has_value();
  Result<http::ClientResponse> reply = request_once(target, limits);
  if (!reply.ok() && was_connected && reply.status().is(StatusKind::kDeviceFault)) {
    reply = request_once(target, limits);
  }
  const bool has_ended = !reply.ok() && (reply.status().is(StatusKind::kInvalidArgument) ||
                                         reply.status().is(StatusKind::kDeviceFault));
  if (was_connected_before_ && has_ended) return process_ended_error(pid_);
  was_connected_before_ = was_connected_before_ || reply.ok();
  return reply;
}

Result<http::ClientResponse> LiveClient::request_once(const std::string& target,
                                                      const http::ClientLimits& limits) {
  if (!client_) {
    Result<live::MonitoredProcess> found = live::connect_to_monitored_process(pid_);
    if (!found.ok()) return found.status();
    client_.emplace(std::move(found->socket), stop_fd_);
  }
  Result<http::ClientResponse> reply = client_->get(target, limits);
  // Closes the connection after a failed request, because the remainder of the response would be
  // read as the next response.
  if (!reply.ok() || !reply->keeps_alive) client_.reset();
  return reply;
}

Result<std::vector<LiveProcessStats>> find_live_processes() {
  Result<std::vector<live::MonitoredProcess>> all = live::find_monitored_processes();
  if (!all.ok()) return all.status();
  std::vector<LiveProcessStats> processes;
  for (live::MonitoredProcess& each : *all) {
    const Result<http::ClientResponse> reply =
        http::Client(std::move(each.socket)).get("/stats", stats_limits());
    processes.push_back({each.pid, reply.ok() ? parse_stats_response(*reply) : reply.status()});
  }
  return processes;
}

}  // namespace ashlar
