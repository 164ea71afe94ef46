// SPDX-License-Identifier: Apache-2.0
//
// Frees queued segments. A thread is in `flushers_` from when it dequeues segments until its last
// call of SegmentSource::free has returned.
#include "engine/return_queue.h"

#include <chrono>
#include <utility>

#include "device/relaxed_capture.h"

namespace ashlar {

void ReturnQueue::reserve() {
  std::list<Entry> node(1);
  MutexLock lock(mutex_);
  reserved_.splice(reserved_.end(), node);
}

void ReturnQueue::cancel_reservation() noexcept {
  MutexLock lock(mutex_);
  reserved_.pop_back();
}

void ReturnQueue::add(std::shared_ptr<SegmentSource> source, AddressRange range) {
  MutexLock lock(mutex_);
  if (reserved_.empty()) reserved_.emplace_back();
  reserved_.front() = {std::move(source), range};
  entries_.splice(entries_.end(), reserved_, reserved_.begin());
  is_empty_.store(false, std::memory_order_release);
}

void ReturnQueue::flush(Device& device) noexcept {
  Flusher self{std::this_thread::get_id()};
  std::list<Entry> entries;
  {
    MutexLock lock(mutex_);
    entries.swap(entries_);
    is_empty_.store(true, std::memory_order_release);
    self.next = std::exchange(flushers_, &self);
  }
  {
    // Memory must be returned to the sources even if relaxed capture mode cannot be set.
    const RelaxedCapture relaxed(device);
    for (const Entry& each : entries) {
      if (each.range.bytes != 0) each.source->free(each.range.begin, each.range.bytes);
    }
    entries.clear();  // may release the last reference to a source
  }
  MutexLock lock(mutex_);
  remove_flusher(self);
  flushed_.notify_all();
}

void ReturnQueue::remove_flusher(const Flusher& flusher) {
  Flusher** link = &flushers_;
  while (*link != &flusher) link = &(*link)->next;
  *link = flusher.next;
}

bool ReturnQueue::is_flushed_by_another_thread() const {
  MutexLock lock(mutex_);
  return must_wait();
}

bool ReturnQueue::must_wait() const {
  const std::thread::id self = std::this_thread::get_id();
  for (const Flusher* flusher = flushers_; flusher != nullptr; flusher = flusher->next) {
    if (flusher->thread == self) return false;
  }
  return flushers_ != nullptr;
}

void ReturnQueue::wait_for_other_threads() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  MutexLock lock(mutex_);
  while (must_wait() && lock.wait_until(flushed_, end)) {
  }
}

}  // namespace ashlar
