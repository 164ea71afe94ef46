// SPDX-License-Identifier: Apache-2.0
//
// Stores the errors in thread-local memory, keyed by the serial number of the LastError.
#include "device/last_error.h"

#include <atomic>
#include <new>
#include <utility>

namespace ashlar {
namespace {

uint64_t next_serial() {
  // Relaxed order suffices, because only uniqueness matters.
  static std::atomic<uint64_t> serial{0};
  return serial.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

LastError::LastError() : serial_(next_serial()), lifetime_(std::make_shared<const char>('\0')) {}

void LastError::record(const Status& status) noexcept {
  if (status.ok()) return;
  try {
    SavedLastErrors::StoredErrors& stored = SavedLastErrors::of_this_thread();
    std::erase_if(stored, [](const auto& each) { return each.second.lifetime.expired(); });
    stored[serial_] = {lifetime_, status};
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
  }
}

Status LastError::peek() const {
  const SavedLastErrors::StoredErrors& stored = SavedLastErrors::of_this_thread();
  const auto found = stored.find(serial_);
  return found == stored.end() ? Status() : found->second.status;
}

Status LastError::take() {
  const Status last = peek();
  SavedLastErrors::of_this_thread().erase(serial_);
  return last;
}

size_t LastError::stored_count() { return SavedLastErrors::of_this_thread().size(); }

SavedLastErrors::StoredErrors& SavedLastErrors::of_this_thread() {
  thread_local StoredErrors stored;
  return stored;
}

SavedLastErrors::SavedLastErrors() : saved_(std::exchange(of_this_thread(), {})) {}

// `merge` moves the errors of devices that have no newer error.
SavedLastErrors::~SavedLastErrors() { of_this_thread().merge(saved_); }

void SavedLastErrors::restore() { of_this_thread() = std::exchange(saved_, {}); }

}  // namespace ashlar
