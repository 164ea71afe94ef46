// SPDX-License-Identifier: Apache-2.0
//
// Each request uses its own connection, so that requests do not wait for each other.
#include "cli/view/live_source.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/live/live_client.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/stack_text.h"

namespace ashlar {
namespace {

// The process was monitored when the page was opened, so kInvalidArgument means that the process
// has ended or stopped live monitoring.
Status translate_failure(const Status& failure, pid_t pid) {
  if (!failure.is(StatusKind::kInvalidArgument)) return failure;
  return process_ended_error(pid);
}

}  // namespace

Result<std::string> LiveSource::name() const {
  const Result<LiveStats> stats = LiveClient(pid_, stop_fd_).get_stats();
  if (!stats.ok()) return stats.status();
  if (stats->allocators.empty()) {
    return Status::invalid_argument(fmt::format("process {} has no allocator yet", pid_));
  }
  return fmt::format("{}, process {}", printable(stats->program), pid_);
}

Result<std::string> LiveSource::stats() {
  const Result<LiveStats> stats = LiveClient(pid_, stop_fd_).get_stats();
  if (!stats.ok()) return translate_failure(stats.status(), pid_);
  return format_json(live_stats_json(*stats, pid_));
}

Result<std::vector<std::shared_ptr<const Recording>>> LiveSource::take_snapshots() {
  LiveClient process(pid_, stop_fd_);
  const Result<LiveStats> stats = process.get_stats();
  if (!stats.ok()) return translate_failure(stats.status(), pid_);
  std::vector<std::shared_ptr<const Recording>> recordings;
  for (const LiveAllocatorStats& each : stats->allocators) {
    Result<Snapshot> snapshot = process.take_snapshot(each.number);
    if (!snapshot.ok() && snapshot.status().is(StatusKind::kInvalidArgument))
      continue;  // the allocator was destroyed in the meantime
    if (!snapshot.ok()) return snapshot.status();
    const std::string name =
        fmt::format("{} {}, allocator {}, {:%H:%M:%S}", printable(stats->program), pid_,
                    each.number, fmt::localtime(std::time(nullptr)));
    recordings.push_back(Recording::create(name, *std::move(snapshot)));
  }
  if (recordings.empty())
    return Status::invalid_argument("the process has no allocator to take a snapshot of");
  return recordings;
}

}  // namespace ashlar
