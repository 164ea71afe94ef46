// SPDX-License-Identifier: Apache-2.0
//
// A count of visits for each; the last one out says so.
#include "api/shown_allocators.h"

#include <pthread.h>
#include <unistd.h>

#include <memory>

namespace ashlar {

template <typename Kind>
Shown<Kind>& Shown<Kind>::of_process() {
  // On purpose without an owner: allocators may end after all else has.
  static Shown* const only = [] {
    // Whoever forks waits until nobody has the lock, which nobody could let go of in the child.
    // Without memory for the handlers, that is left to luck.
    static_cast<void>(::pthread_atfork([] { of_process().before_fork(); },
                                       [] { of_process().after_fork(); },
                                       [] { of_process().after_fork(); }));
    return std::make_unique<Shown>().release();
  }();
  return *only;
}

template <typename Kind>
void Shown<Kind>::before_fork() {
  mutex_.lock();
}

template <typename Kind>
void Shown<Kind>::after_fork() {
  mutex_.unlock();
}

template <typename Kind>
uint64_t Shown<Kind>::enter(Kind& allocator) {
  MutexLock lock(mutex_);
  Place shown;
  shown.allocator = &allocator;
  shown_.emplace(next_number_, shown);
  return next_number_++;
}

template <typename Kind>
void Shown<Kind>::leave(uint64_t number) {
  MutexLock lock(mutex_);
  const auto found = shown_.find(number);
  found->second.is_leaving = true;
  while (found->second.visit_count > 0 && found->second.visited_in == ::getpid()) {
    lock.wait(visit_ended_);
  }
  shown_.erase(found);
}

template <typename Kind>
std::vector<uint64_t> Shown<Kind>::numbers() const {
  MutexLock lock(mutex_);
  std::vector<uint64_t> all;
  for (const auto& [number, shown] : shown_) {
    if (!shown.is_leaving) all.push_back(number);
  }
  return all;
}

template <typename Kind>
class Shown<Kind>::Visit {
 public:
  Visit(Shown& all, uint64_t number) : all_(all) {
    MutexLock lock(all_.mutex_);
    const auto found = all_.shown_.find(number);
    if (found == all_.shown_.end() || found->second.is_leaving) return;
    shown_ = &found->second;
    if (shown_->visited_in != ::getpid()) shown_->visit_count = 0;
    shown_->visited_in = ::getpid();
    ++shown_->visit_count;
  }
  ~Visit() {
    if (shown_ == nullptr) return;
    MutexLock lock(all_.mutex_);
    if (--shown_->visit_count == 0) all_.visit_ended_.notify_all();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  // Null: there is none.
  Kind* allocator() const { return shown_ == nullptr ? nullptr : shown_->allocator; }

 private:
  Shown& all_;
  Place* shown_ = nullptr;  // stays while it is being visited
};

template <typename Kind>
bool Shown<Kind>::visit(uint64_t number, const std::function<void(Kind&)>& look) {
  const Visit visit(*this, number);
  if (visit.allocator() == nullptr) return false;
  look(*visit.allocator());
  return true;
}

template class Shown<Allocator>;
template class Shown<HostAllocator>;

}  // namespace ashlar
