// SPDX-License-Identifier: Apache-2.0
//
// The process that `ashlar view --live` watches, as the page's server asks it. Thread safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "view/live_process.h"

namespace ashlar {

class LivePage final : public view::LiveProcess {
 public:
  // `stop_fd` becomes readable when nobody wants answers any more.
  LivePage(pid_t pid, int stop_fd) : pid_(pid), stop_fd_(stop_fd) {}

  // "train, process 4711". kInvalidArgument: there is no such process, it shows nothing, or it has
  // no allocator; kTimeout: it does not answer.
  Result<std::string> name() const;

  Result<std::string> stats() override;
  Result<std::vector<std::shared_ptr<const Recording>>> take_snapshots() override;

 private:
  const pid_t pid_;
  const int stop_fd_;
};

}  // namespace ashlar
