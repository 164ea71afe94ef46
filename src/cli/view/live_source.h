// SPDX-License-Identifier: Apache-2.0
//
// Serves the page of `ashlar view --live` with data of the monitored process. Thread safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "view/live_process.h"

namespace ashlar {

class LiveSource final : public view::LiveProcess {
 public:
  // Requests are cancelled when `stop_fd` becomes readable.
  LiveSource(pid_t pid, int stop_fd) : pid_(pid), stop_fd_(stop_fd) {}

  // Returns a title such as "train, process 4711". kInvalidArgument: the process does not exist,
  // has live monitoring off, or has no allocator. Other errors are those of
  // LiveClient::get_stats().
  Result<std::string> name() const;

  Result<std::string> stats() override;
  Result<std::vector<std::shared_ptr<const Recording>>> take_snapshots() override;

 private:
  const pid_t pid_;
  const int stop_fd_;
};

}  // namespace ashlar
