// SPDX-License-Identifier: Apache-2.0
//
// Stores the errors in thread-local memory, keyed by the serial number of the LastError.
#include "device/last_error.h"

#include <atomic>

namespace ashlar {
namespace {

using FailureBySerial = std::unordered_map<uint64_t, Status>;

FailureBySerial& failures_of_this_thread() {
  thread_local FailureBySerial failures;
  return failures;
}

uint64_t next_serial() {
  // Relaxed order suffices, because only uniqueness matters.
  static std::atomic<uint64_t> serial{0};
  return serial.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

LastError::LastError() : serial_(next_serial()) {}

void LastError::record(const Status& status) {
  if (!status.ok()) failures_of_this_thread()[serial_] = status;
}

Status LastError::peek() const {
  const FailureBySerial& failures = failures_of_this_thread();
  const auto found = failures.find(serial_);
  return found == failures.end() ? Status() : found->second;
}

Status LastError::take() {
  const Status last = peek();
  failures_of_this_thread().erase(serial_);
  return last;
}

SavedLastErrors::SavedLastErrors() : failures_(failures_of_this_thread()) {}

void SavedLastErrors::restore() const { failures_of_this_thread() = failures_; }

}  // namespace ashlar
