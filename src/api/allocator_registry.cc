// SPDX-License-Identifier: Apache-2.0
//
// Counts the visits to each allocator; removal waits until the count is 0.
#include "api/allocator_registry.h"

#include <pthread.h>

#include <memory>

#include "api/allocator_impl.h"
#include "base/fork_guard.h"

namespace ashlar {
namespace {

void set_inherited(Allocator& allocator) {
  AllocatorAccess::impl(allocator).engine->set_inherited();
}
void set_inherited(HostAllocator& /*allocator*/) {}  // it checks for forks on every call

}  // namespace

template <typename Kind>
AllocatorRegistry<Kind>& AllocatorRegistry<Kind>::instance() {
  // Never destroyed: allocators may be destroyed by static destructors.
  static AllocatorRegistry* const singleton = [] {
    // A fork waits for the mutex, so that the child never inherits it locked. If the handlers
    // cannot be registered and a fork occurs while the mutex is locked, the child may deadlock.
    static_cast<void>(::pthread_atfork([] { instance().before_fork(); },
                                       [] { instance().after_fork_in_parent(); },
                                       [] { instance().after_fork_in_child(); }));
    return std::make_unique<AllocatorRegistry>().release();
  }();
  return *singleton;
}

template <typename Kind>
void AllocatorRegistry<Kind>::before_fork() {
  mutex_.lock();
}

template <typename Kind>
void AllocatorRegistry<Kind>::after_fork_in_parent() {
  mutex_.unlock();
}

// The condition variable is replaced, because it may have waiting threads of the parent.
template <typename Kind>
void AllocatorRegistry<Kind>::after_fork_in_child() {
  for (const auto& [number, record] : records_) set_inherited(*record.allocator);
  records_.clear();
  std::construct_at(&visit_ended_);
  mutex_.unlock();
}

template <typename Kind>
uint64_t AllocatorRegistry<Kind>::add(Kind& allocator) {
  MutexLock lock(mutex_);
  Record record;
  record.allocator = &allocator;
  records_.emplace(next_number_, record);
  return next_number_++;
}

template <typename Kind>
void AllocatorRegistry<Kind>::remove(uint64_t number) {
  MutexLock lock(mutex_);
  const auto found = records_.find(number);
  found->second.is_leaving = true;
  while (found->second.visit_count > 0) lock.wait(visit_ended_);
  records_.erase(found);
}

template <typename Kind>
std::vector<uint64_t> AllocatorRegistry<Kind>::numbers() const {
  MutexLock lock(mutex_);
  std::vector<uint64_t> numbers;
  for (const auto& [number, record] : records_) {
    if (!record.is_leaving) numbers.push_back(number);
  }
  return numbers;
}

// Prevents the removal of one record until the visit is destroyed.
template <typename Kind>
class AllocatorRegistry<Kind>::Visit {
 public:
  Visit(AllocatorRegistry& registry, uint64_t number) : registry_(registry) {
    MutexLock lock(registry_.mutex_);
    const auto found = registry_.records_.find(number);
    if (found == registry_.records_.end() || found->second.is_leaving) return;
    record_ = &found->second;
    ++record_->visit_count;
  }
  // Does nothing in a forked child, whose registry has no record of the visited allocator.
  ~Visit() {
    if (record_ == nullptr || !fork_guard_.in_creating_process()) return;
    MutexLock lock(registry_.mutex_);
    if (--record_->visit_count == 0) registry_.visit_ended_.notify_all();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  // Returns null if no allocator has the number.
  Kind* allocator() const { return record_ == nullptr ? nullptr : record_->allocator; }

 private:
  AllocatorRegistry& registry_;
  Record* record_ = nullptr;  // not removed before the visit ends
  const ForkGuard fork_guard_;
};

template <typename Kind>
bool AllocatorRegistry<Kind>::visit(uint64_t number, const std::function<void(Kind&)>& visitor) {
  const Visit visit(*this, number);
  if (visit.allocator() == nullptr) return false;
  visitor(*visit.allocator());
  return true;
}

template class AllocatorRegistry<Allocator>;
template class AllocatorRegistry<HostAllocator>;

}  // namespace ashlar
