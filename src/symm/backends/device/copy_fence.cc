// SPDX-License-Identifier: Apache-2.0
//
// Keeps one event per stream, which the last copy records.
#include "symm/backends/device/copy_fence.h"

#include "device/relaxed_capture.h"

namespace ashlar::symm {

CopyFence::~CopyFence() {
  MutexLock lock(mutex_);
  for (const auto& [stream, event] : last_copies_) (void)device_.destroy_event(event).ok();
}

Status CopyFence::record(StreamId stream) {
  // Programs use few streams, but may destroy them and create others.
  constexpr size_t kManyStreams = 32;
  MutexLock lock(mutex_);
  auto known = last_copies_.find(stream);
  if (known == last_copies_.end()) {
    if (last_copies_.size() >= kManyStreams) forget_finished_locked();
    const Result<EventId> event = device_.create_event();
    if (!event.ok()) return event.status();
    known = last_copies_.emplace(stream, *event).first;
  }
  return device_.record_event(known->second, stream);
}

Status CopyFence::wait(StreamId stream) {
  MutexLock lock(mutex_);
  forget_finished_locked();
  for (const auto& [other, event] : last_copies_) {
    if (Status waits = device_.wait_event(stream, event); !waits.ok()) return waits;
  }
  return {};
}

void CopyFence::forget_finished_locked() {
  const RelaxedCapture relaxed(device_);
  std::erase_if(last_copies_, [&](const auto& each) {
    const Result<bool> is_done = device_.is_done(each.second);
    if (!is_done.ok() || !*is_done) return false;
    (void)device_.destroy_event(each.second).ok();
    return true;
  });
}

}  // namespace ashlar::symm
