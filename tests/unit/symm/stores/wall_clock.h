// SPDX-License-Identifier: Apache-2.0
//
// An adjustable wall clock for this process, to simulate a machine whose clock differs. Does not
// affect times that the kernel records itself, such as modification times of files.
#pragma once

#include <chrono>

namespace ashlar::symm {

// Shifts the wall clock during its lifetime. At most one object may exist.
class WallClockAhead {
 public:
  explicit WallClockAhead(std::chrono::seconds by);
  ~WallClockAhead();
  WallClockAhead(const WallClockAhead&) = delete;
  WallClockAhead& operator=(const WallClockAhead&) = delete;
};

}  // namespace ashlar::symm
