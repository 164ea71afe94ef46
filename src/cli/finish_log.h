// SPDX-License-Identifier: Apache-2.0
//
// Which pieces of the demo's work have finished, in their order. The streams' threads write to it,
// so it is thread safe.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "cli/demo_workload.h"

namespace ashlar {

class FinishLog {
 public:
  void note(Lane lane, std::string piece) {
    MutexLock lock(mutex_);
    finished_.push_back({lane, std::move(piece)});
  }

  std::vector<Finished> all() const {
    MutexLock lock(mutex_);
    return finished_;
  }

  size_t count(std::initializer_list<Lane> lanes) const {
    const std::vector<Finished> finished = all();
    return static_cast<size_t>(
        std::count_if(finished.begin(), finished.end(), [lanes](const Finished& each) {
          return std::find(lanes.begin(), lanes.end(), each.lane) != lanes.end();
        }));
  }

 private:
  mutable Mutex mutex_;
  std::vector<Finished> finished_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
