// SPDX-License-Identifier: Apache-2.0
//
// The last failure per thread and device, for back ends that keep Device::last_error's promise
// themselves. One object per device; any thread.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "ashlar/status.h"

namespace ashlar {

class LastError {
 public:
  LastError();

  // Remembers a failure for the calling thread; an ok status changes nothing.
  void note(const Status& status);
  Status peek() const;
  Status take();

 private:
  uint64_t serial_;  // never used again in this process, so that no stale entry can be mistaken
};

// The calling thread's last failures on all devices, as they were. For whoever tries what may fail
// and has another way: a failure that was got over is nobody's to find later, and does not hide
// what was noted before it.
class FailuresBefore {
 public:
  FailuresBefore();
  // REQUIRES: on the thread that made it.
  void restore() const;

 private:
  std::unordered_map<uint64_t, Status> failures_;  // by device
};

}  // namespace ashlar
