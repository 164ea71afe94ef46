// SPDX-License-Identifier: Apache-2.0
//
// The wall clock of this program, which a test may set as if it were another machine's. What the
// kernel writes down itself, such as when a file was touched, stays as it is.
#pragma once

#include <chrono>

namespace ashlar::symm {

// While it is there: so much ahead, or behind. One at a time.
class WallClockAhead {
 public:
  explicit WallClockAhead(std::chrono::seconds by);
  ~WallClockAhead();
  WallClockAhead(const WallClockAhead&) = delete;
  WallClockAhead& operator=(const WallClockAhead&) = delete;
};

}  // namespace ashlar::symm
