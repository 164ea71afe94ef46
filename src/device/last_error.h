// SPDX-License-Identifier: Apache-2.0
//
// Implements Device::last_error for back ends: the last error of each thread on one device. Each
// device owns one such object. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "ashlar/status.h"

namespace ashlar {

class LastError {
 public:
  LastError();
  LastError(const LastError&) = delete;
  LastError& operator=(const LastError&) = delete;

  // Records a failure for the calling thread. Ignores an ok status. If host memory is exhausted,
  // the previous error stays.
  void record(const Status& status) noexcept;
  // Both functions return the calling thread's last error; ok if there is none. `take` also clears
  // it.
  Status peek() const;
  Status take();

  // Returns how many errors are stored for the calling thread. The errors of a destroyed device
  // stay stored until the thread records another error. For tests.
  static size_t stored_count();

 private:
  // Unique in the process, so that the stored errors of a destroyed device do not match.
  const uint64_t serial_;
  // Expires with this object. Threads refer to it to recognize the errors of destroyed devices.
  const std::shared_ptr<const char> lifetime_;
};

// Sets the calling thread's last errors on all devices aside. Code that tries a call and has a
// fallback restores them afterwards, so that the handled failure neither surfaces later nor hides
// an earlier failure. REQUIRES: all calls, including the destructor, are made by one thread, and
// objects are destroyed in the reverse order of their construction.
class SavedLastErrors {
 public:
  SavedLastErrors();
  // Unless `restore` was called, keeps the errors recorded since the constructor, and the saved
  // errors of the other devices.
  ~SavedLastErrors();
  SavedLastErrors(const SavedLastErrors&) = delete;
  SavedLastErrors& operator=(const SavedLastErrors&) = delete;

  // Drops the errors recorded since the constructor and restores the saved errors.
  void restore();

 private:
  friend class LastError;
  struct StoredError {
    std::weak_ptr<const char> lifetime{};  // expires with the LastError
    Status status{};
  };
  using StoredErrors = std::unordered_map<uint64_t, StoredError>;  // keyed by LastError::serial_

  static StoredErrors& of_this_thread();

  StoredErrors saved_;  // empty after `restore`
};

}  // namespace ashlar
