// A count of visits for each; the last one out says so.
#include "api/shown_allocators.h"

#include <pthread.h>
#include <unistd.h>

#include <memory>

namespace ashlar {

ShownAllocators& ShownAllocators::of_process() {
  // On purpose without an owner: allocators may end after all else has.
  static ShownAllocators* const only = [] {
    // Whoever forks waits until nobody has the lock, which nobody could let go of in the child.
    // Without memory for the handlers, that is left to luck.
    static_cast<void>(::pthread_atfork([] { of_process().before_fork(); },
                                       [] { of_process().after_fork(); },
                                       [] { of_process().after_fork(); }));
    return std::make_unique<ShownAllocators>().release();
  }();
  return *only;
}

// The compiler's analysis knows of no lock that is let go of in another process.
void ShownAllocators::before_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  mutex_.lock();
}

void ShownAllocators::after_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  mutex_.unlock();
}

uint64_t ShownAllocators::enter(Allocator& allocator) {
  MutexLock lock(mutex_);
  Shown shown;
  shown.allocator = &allocator;
  shown_.emplace(next_number_, shown);
  return next_number_++;
}

void ShownAllocators::leave(uint64_t number) {
  MutexLock lock(mutex_);
  const auto found = shown_.find(number);
  found->second.is_leaving = true;
  while (found->second.visit_count > 0 && found->second.visited_in == ::getpid()) {
    lock.wait(visit_ended_);
  }
  shown_.erase(found);
}

std::vector<uint64_t> ShownAllocators::numbers() const {
  MutexLock lock(mutex_);
  std::vector<uint64_t> all;
  for (const auto& [number, shown] : shown_) {
    if (!shown.is_leaving) all.push_back(number);
  }
  return all;
}

class ShownAllocators::Visit {
 public:
  Visit(ShownAllocators& all, uint64_t number) : all_(all) {
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
  Allocator* allocator() const { return shown_ == nullptr ? nullptr : shown_->allocator; }

 private:
  ShownAllocators& all_;
  Shown* shown_ = nullptr;  // stays while it is being visited
};

bool ShownAllocators::visit(uint64_t number, const std::function<void(Allocator&)>& look) {
  const Visit visit(*this, number);
  if (visit.allocator() == nullptr) return false;
  look(*visit.allocator());
  return true;
}

}  // namespace ashlar
