// SPDX-License-Identifier: Apache-2.0
//
// Retains streams, and makes pausing and host access exclude each other.
#include "memory.h"

#include "api/unwrap.h"
#include "base/text.h"

namespace ashlar::python {

void RetainedStreams::retain(const std::shared_ptr<SharedStream>& stream) {
  if (stream == nullptr) return;
  MutexLock lock(mutex_);
  streams_.try_emplace(stream->id(), stream);
}

void SharedAllocator::begin_host_access() {
  require_same_process(device_.created_after_forks);
  MutexLock lock(mutex_);
  if (pause_or_resume_count_ > 0) {
    unwrap(Status::invalid_argument(
        "memory of the allocator is being paused or resumed; open the view before or after"));
  }
  ++host_access_count_;
}

void SharedAllocator::end_host_access() {
  MutexLock lock(mutex_);
  --host_access_count_;
}

void SharedAllocator::begin_pause() {
  require_same_process(device_.created_after_forks);
  MutexLock lock(mutex_);
  if (host_access_count_ > 0) {
    unwrap(Status::invalid_argument(
        text("host views of the allocator's memory are open: ", host_access_count_,
             ", and none may be while any of it is paused (expected that they "
             "and arrays made of them are gone)")));
  }
  ++pause_or_resume_count_;
}

void SharedAllocator::begin_resume() {
  require_same_process(device_.created_after_forks);
  MutexLock lock(mutex_);
  ++pause_or_resume_count_;
}

void SharedAllocator::end_pause_or_resume() {
  MutexLock lock(mutex_);
  --pause_or_resume_count_;
}

}  // namespace ashlar::python
