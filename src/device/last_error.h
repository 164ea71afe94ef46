// SPDX-License-Identifier: Apache-2.0
//
// Implements Device::last_error for back ends: the last error of each thread on one device. Each
// device owns one such object. Thread safe.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "ashlar/status.h"

namespace ashlar {

class LastError {
 public:
  LastError();

  // Records a failure for the calling thread. Ignores an ok status.
  void record(const Status& status);
  // Both functions return the calling thread's last error; ok if there is none. `take` also clears
  // it.
  Status peek() const;
  Status take();

 private:
  // Unique in the process, so that stale entries of destroyed devices do not match.
  uint64_t serial_;
};

// Saves the calling thread's last errors on all devices. Code that tries a call and has a fallback
// restores the saved errors afterwards, so that the handled failure neither surfaces later nor
// hides an earlier failure.
class SavedLastErrors {
 public:
  SavedLastErrors();
  // REQUIRES: called on the constructing thread.
  void restore() const;

 private:
  std::unordered_map<uint64_t, Status> failures_;  // keyed by LastError::serial_
};

}  // namespace ashlar
