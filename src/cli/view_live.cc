// SPDX-License-Identifier: Apache-2.0
//
// Each question has a connection of its own, so that none waits for another.
#include "cli/view_live.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/json_answer.h"
#include "cli/stack_text.h"
#include "cli/watched_process.h"

namespace ashlar {
namespace {

// It was there when the page was opened, so that its absence means its end.
Status after_the_start(const Status& failure, pid_t pid) {
  if (!failure.is(StatusKind::kInvalidArgument)) return failure;
  return process_is_gone(pid);
}

}  // namespace

Result<std::string> LivePage::name() const {
  const Result<LiveNumbers> numbers = WatchedProcess(pid_, stop_fd_).look();
  if (!numbers.ok()) return numbers.status();
  if (numbers->allocators.empty()) {
    return Status::invalid_argument(
        fmt::format("process {} has no allocator yet: there is nothing to look at", pid_));
  }
  return fmt::format("{}, process {}", printable(numbers->program), pid_);
}

Result<std::string> LivePage::stats() {
  const Result<LiveNumbers> numbers = WatchedProcess(pid_, stop_fd_).look();
  if (!numbers.ok()) return after_the_start(numbers.status(), pid_);
  return json_answer(live_numbers_json(*numbers, pid_));
}

Result<std::vector<std::shared_ptr<const Recording>>> LivePage::take_snapshots() {
  WatchedProcess process(pid_, stop_fd_);
  const Result<LiveNumbers> numbers = process.look();
  if (!numbers.ok()) return after_the_start(numbers.status(), pid_);
  std::vector<std::shared_ptr<const Recording>> taken;
  for (const AllocatorNumbers& each : numbers->allocators) {
    Result<Snapshot> snapshot = process.take_snapshot(each.number);
    if (!snapshot.ok() && snapshot.status().is(StatusKind::kInvalidArgument))
      continue;  // ended meanwhile
    if (!snapshot.ok()) return snapshot.status();
    const std::string name =
        fmt::format("{} {}, allocator {}, {:%H:%M:%S}", printable(numbers->program), pid_,
                    each.number, fmt::localtime(std::time(nullptr)));
    taken.push_back(Recording::create(name, *std::move(snapshot)));
  }
  if (taken.empty())
    return Status::invalid_argument("the process has no allocator: there is nothing to take");
  return taken;
}

}  // namespace ashlar
