// SPDX-License-Identifier: Apache-2.0
//
// The last error per thread and device, for back ends that implement Device::last_error. One object
// per device. Thread safe.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "ashlar/status.h"

namespace ashlar {

class LastError {
 public:
  LastError();

  // Records a failure for the calling thread. Ignores ok.
  void note(const Status& status);
  Status peek() const;
  Status take();

 private:
  // Unique in the process, so that stale entries of destroyed devices do not match.
  uint64_t serial_;
};

// Saves the calling thread's last errors on all devices. Code that tries a call and has a fallback
// restores them afterwards, so that the handled failure neither surfaces later nor hides an earlier
// one.
class SavedLastErrors {
 public:
  SavedLastErrors();
  // REQUIRES: called on the constructing thread.
  void restore() const;

 private:
  std::unordered_map<uint64_t, Status> failures_;  // keyed by device
};

}  // namespace ashlar
