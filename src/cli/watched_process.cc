// SPDX-License-Identifier: Apache-2.0
//
// A connection that is kept, and made anew where it was lost.
#include "cli/watched_process.h"

#include "base/text.h"
#include "cli/stack_text.h"
#include "files/read_snapshot.h"
#include "live/discovery.h"

namespace ashlar {
namespace {

using std::chrono::milliseconds;

// Numbers come at once, or the process stands still; a snapshot takes time to be made.
constexpr milliseconds kLooking{1'500};
// Whoever sends a little now and then is no better than one who stands still; but much takes long.
constexpr milliseconds kSnapshotPatience{120'000};
constexpr milliseconds kWholeSnapshot{3'600'000};
constexpr uint64_t kMostSnapshotBytes = uint64_t{16} << 30;

http::ClientLimits looking_limits() {
  http::ClientLimits limits;
  limits.timeout = kLooking;
  limits.total_timeout = 2 * kLooking;
  return limits;
}

Result<LiveNumbers> numbers_in(const http::ClientResponse& reply) {
  if (reply.code == 200) return read_live_numbers(reply.body);
  return Status::format(text("the process answers with code ", reply.code, ": ",
                             printable(std::string_view(reply.body).substr(0, 200))));
}

}  // namespace

Status process_is_gone(pid_t pid) {
  return Status::peer_lost(text("process ", pid, " has ended, or shows itself no more"));
}

Result<LiveNumbers> WatchedProcess::look() {
  const Result<http::ClientResponse> reply = ask("/stats", looking_limits());
  if (!reply.ok()) return reply.status();
  return numbers_in(*reply);
}

Result<Snapshot> WatchedProcess::take_snapshot(uint64_t allocator) {
  http::ClientLimits limits;
  limits.timeout = kSnapshotPatience;
  limits.total_timeout = kWholeSnapshot;
  limits.max_body_bytes = kMostSnapshotBytes;
  const std::string name = text("process ", pid_, ", allocator ", allocator);
  const Result<http::ClientResponse> reply = ask(text("/snapshot?allocator=", allocator), limits);
  if (!reply.ok()) return reply.status();
  if (reply->code == 404) return Status::invalid_argument(text(name, " is gone"));
  if (reply->code != 200) {
    return Status::format(text(name, ": no snapshot was taken: ",
                               printable(std::string_view(reply->body).substr(0, 200))));
  }
  return read_snapshot(name, std::make_unique<MemorySource>(reply->body));
}

// The other side hangs up on those who are silent for a minute: then the first try is lost.
Result<http::ClientResponse> WatchedProcess::ask(const std::string& target,
                                                 const http::ClientLimits& limits) {
  const bool was_connected = client_.has_value();
  Result<http::ClientResponse> reply = ask_once(target, limits);
  if (!reply.ok() && was_connected && reply.status().is(StatusKind::kDeviceFault)) {
    reply = ask_once(target, limits);
  }
  const bool is_gone = !reply.ok() && (reply.status().is(StatusKind::kInvalidArgument) ||
                                       reply.status().is(StatusKind::kDeviceFault));
  if (was_seen_ && is_gone) return process_is_gone(pid_);
  was_seen_ = was_seen_ || reply.ok();
  return reply;
}

Result<http::ClientResponse> WatchedProcess::ask_once(const std::string& target,
                                                      const http::ClientLimits& limits) {
  if (!client_) {
    Result<live::MonitoredProcess> found = live::connect_to_monitored(pid_);
    if (!found.ok()) return found.status();
    client_.emplace(std::move(found->socket), stop_fd_);
  }
  Result<http::ClientResponse> reply = client_->get(target, limits);
  // The rest of an answer that was given up would be taken for the next one.
  if (!reply.ok() || !reply->keeps_alive) client_.reset();
  return reply;
}

Result<std::vector<Watchable>> watchable_processes() {
  Result<std::vector<live::MonitoredProcess>> all = live::find_monitored();
  if (!all.ok()) return all.status();
  std::vector<Watchable> told;
  for (live::MonitoredProcess& each : *all) {
    const Result<http::ClientResponse> reply =
        http::Client(std::move(each.socket)).get("/stats", looking_limits());
    told.push_back({each.pid, reply.ok() ? numbers_in(*reply) : reply.status()});
  }
  return told;
}

}  // namespace ashlar
