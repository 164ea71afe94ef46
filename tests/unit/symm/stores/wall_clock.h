// SPDX-License-Identifier: Apache-2.0
//
// An adjustable wall clock for this program, to simulate another machine. Times that the kernel
// records itself, such as modification times of files, are not affected.
#pragma once

#include <chrono>

namespace ashlar::symm {

// Shifts the wall clock while it exists. One at a time.
class WallClockAhead {
 public:
  explicit WallClockAhead(std::chrono::seconds by);
  ~WallClockAhead();
  WallClockAhead(const WallClockAhead&) = delete;
  WallClockAhead& operator=(const WallClockAhead&) = delete;
};

}  // namespace ashlar::symm
