// SPDX-License-Identifier: Apache-2.0
//
// Queues and delivers notices. One thread delivers at a time. If an observer calls the engine, the
// same thread may deliver recursively: the nested call delivers all remaining notices, to each
// observer in queue order.
#include "engine/remap_observers.h"

#include "base/check.h"

namespace ashlar {

void RemapObservers::add(RemapObserver observer, const std::vector<AddressRange>& mapped) {
  auto listener = std::make_unique<Listener>();
  listener->observer = std::move(observer);
  for (const AddressRange& range : mapped) listener->notices.push_back({true, range});
  MutexLock lock(mutex_);
  reserve_locked(0, listeners_.size() + 1);
  listeners_.push_back(std::move(listener));
  has_any_.store(true, std::memory_order_relaxed);
}

RemapObservers::Reservation RemapObservers::reserve(size_t count) {
  if (count == 0) return {*this, 0};
  MutexLock lock(mutex_);
  reserve_locked(count, listeners_.size());
  reserved_count_ += count;
  return {*this, count};
}

void RemapObservers::reserve_locked(size_t count, size_t listener_count) {
  const size_t wanted = (reserved_count_ + count) * listener_count;
  while (spare_notices_.size() < wanted) spare_notices_.emplace_back();
}

void RemapObservers::unreserve(size_t count) noexcept {
  MutexLock lock(mutex_);
  reserved_count_ -= count;
  if (reserved_count_ == 0) spare_notices_.clear();
}

void RemapObservers::queue(const Notice& notice) noexcept {
  if (!any()) return;
  MutexLock lock(mutex_);
  for (const auto& listener : listeners_) {
    ASHLAR_DCHECK(!spare_notices_.empty());
    if (spare_notices_.empty()) spare_notices_.emplace_back();
    spare_notices_.front() = notice;
    listener->notices.splice(listener->notices.end(), spare_notices_, spare_notices_.begin());
  }
}

void RemapObservers::deliver() {
  MutexLock lock(mutex_);
  const bool is_nested = notifying_thread_ == std::this_thread::get_id();
  while (!is_nested && notifying_thread_ != std::thread::id()) lock.wait(notified_);
  notifying_thread_ = std::this_thread::get_id();
  while (Listener* listener = next_listener()) {
    const Notice notice = listener->notices.front();
    listener->notices.pop_front();
    MutexUnlock unlocked(mutex_);
    const RemapObserver& observer = listener->observer;
    const auto& hook = notice.is_mapped ? observer.after_map : observer.before_unmap;
    if (hook) hook(notice.range);
  }
  if (is_nested) return;
  notifying_thread_ = {};
  notified_.notify_all();
}

bool RemapObservers::is_notifying_thread() {
  MutexLock lock(mutex_);
  return notifying_thread_ == std::this_thread::get_id();
}

RemapObservers::Listener* RemapObservers::next_listener() {
  for (const auto& listener : listeners_) {
    if (!listener->notices.empty()) return listener.get();
  }
  return nullptr;
}

}  // namespace ashlar
