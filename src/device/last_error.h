// The last failure per thread and device, for back ends that keep Device::last_error's promise
// themselves. One object per device; any thread.
#pragma once

#include <cstdint>

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

}  // namespace ashlar
