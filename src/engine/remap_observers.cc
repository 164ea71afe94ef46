// SPDX-License-Identifier: Apache-2.0
//
// Queues and delivers notices. One thread delivers at a time. If an observer calls the engine, the
// same thread may deliver recursively: the nested call delivers all remaining notices, to each
// observer in queue order.
#include "engine/remap_observers.h"

namespace ashlar {

void RemapObservers::add(RemapObserver observer, const std::vector<AddressRange>& mapped) {
  auto listener = std::make_unique<Listener>();
  listener->observer = std::move(observer);
  for (const AddressRange& range : mapped) listener->notices.push_back({true, range});
  MutexLock lock(mutex_);
  listeners_.push_back(std::move(listener));
  has_any_.store(true, std::memory_order_relaxed);
}

void RemapObservers::queue(const Notice& notice) {
  if (!any()) return;
  MutexLock lock(mutex_);
  std::list<Notice> copies(listeners_.size(), notice);
  for (const auto& listener : listeners_) {
    listener->notices.splice(listener->notices.end(), copies, copies.begin());
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
