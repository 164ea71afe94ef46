// SPDX-License-Identifier: Apache-2.0
//
// A lock that nearly always is taken by the same thread, such as an arena's by the thread that
// works on its stream. Once a thread has taken it many times in a row it is that thread's: taking
// it then costs two plain stores, without the atomic exchange that is half the price of a short
// critical section. Whoever else comes takes that privilege away again, which costs a system call
// (membarrier) that makes the owner's stores visible.
//
// Critical sections are short, and a thread is in one of each rank at a time, unless it took all
// with lock_plainly. Of two ranks, the lower one is taken first.
#pragma once

#include <array>
#include <atomic>

#include "base/spin_mutex.h"
#include "base/thread_mark.h"

namespace ashlar {

enum class LockRank : uint8_t { kArena, kHistory };

// What a thread shows of itself to threads that take a lock away from it. Never freed: a thread
// that comes later takes over the record of one that has ended, and with it what that one owned.
// Written with every lock, and so alone on its lines of the cache.
struct alignas(128) ThreadRecord {
  std::array<std::atomic<bool>, 2> is_inside{};  // a lock that it owns, for each rank
  std::atomic<uintptr_t> mark{0};                // of the thread; 0: nobody's
  ThreadRecord* next = nullptr;                  // in the list of spare ones

  static ThreadRecord* mine() { return own != nullptr ? own : take_mine(); }
  // The calling thread's.
  bool is_mine() const { return mark.load(std::memory_order_relaxed) == thread_mark(); }

 private:
  static ThreadRecord* take_mine();
  static constinit thread_local ThreadRecord* own;
};

namespace bias {

// False where the system cannot do the following, or a checker of races watches, who would not
// understand.
bool is_possible();
// What every thread of the process has stored so far.
void make_stores_visible();

}  // namespace bias

template <LockRank kRank>
class ASHLAR_CAPABILITY("mutex") BiasedMutex {
 public:
  // For who takes many at once: no other thread owns it afterwards.
  void lock_plainly() ASHLAR_ACQUIRE() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    mutex_.lock();
    ThreadRecord* me = ThreadRecord::mine();
    if (owner_.load(std::memory_order_relaxed) != me) take_away(me);
  }
  void unlock_plainly() ASHLAR_RELEASE() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    mutex_.unlock();
  }

 private:
  template <LockRank>
  friend class BiasedLock;
  template <LockRank>
  friend class OwnedLock;
  static constexpr int kStreak = 64;  // times in a row that make a thread the owner

  [[gnu::noinline]] void lock_with_others(ThreadRecord* me)
      ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    mutex_.lock();
    take_away(me);
    if (last_ == me && bias::is_possible()) {
      if (++streak_ >= kStreak) owner_.store(me, std::memory_order_relaxed);
    } else {
      last_ = me;
      streak_ = 0;
    }
  }
  // REQUIRES: mutex_ is held.
  void take_away(ThreadRecord* me) {
    ThreadRecord* owner = owner_.load(std::memory_order_relaxed);
    if (owner == nullptr) return;
    if (owner != me) wait_for_owner(owner);
    owner_.store(nullptr, std::memory_order_relaxed);
    streak_ = 0;
  }
  // From the barrier on, either we see that the owner is inside, or it sees that it owns no more.
  void wait_for_owner(ThreadRecord* owner) {
    owner_.store(nullptr, std::memory_order_relaxed);
    bias::make_stores_visible();
    for (int spins = 0; inside(owner).load(std::memory_order_acquire); ++spins) {
      if (spins > 64) std::this_thread::yield();
    }
  }

  static std::atomic<bool>& inside(ThreadRecord* thread) {
    return thread->is_inside[static_cast<size_t>(kRank)];
  }

  SpinMutex mutex_;
  std::atomic<ThreadRecord*> owner_{nullptr};
  ThreadRecord* last_ = nullptr;  // by mutex_
  int streak_ = 0;                // by mutex_
};

template <LockRank kRank>
class ASHLAR_SCOPED_CAPABILITY BiasedLock {
 public:
  [[gnu::always_inline]] explicit BiasedLock(BiasedMutex<kRank>& mutex) ASHLAR_ACQUIRE(mutex)
      : mutex_(mutex), me_(mutex.owner_.load(std::memory_order_relaxed)) {
    if (me_ != nullptr && me_->is_mine()) [[likely]] {
      mutex_.inside(me_).store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (mutex_.owner_.load(std::memory_order_relaxed) == me_) [[likely]]
        return;
      mutex_.inside(me_).store(false, std::memory_order_release);
    }
    mutex_.lock_with_others(ThreadRecord::mine());
    me_ = nullptr;
  }
  [[gnu::always_inline]] ~BiasedLock() ASHLAR_RELEASE()
      ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    if (me_ != nullptr) [[likely]] {
      mutex_.inside(me_).store(false, std::memory_order_release);
    } else {
      mutex_.mutex_.unlock();
    }
  }
  BiasedLock(const BiasedLock&) = delete;
  BiasedLock& operator=(const BiasedLock&) = delete;

 private:
  BiasedMutex<kRank>& mutex_;
  ThreadRecord* me_;  // null: taken in the plain way
};

// For what can be left to others when it does not work at once: takes the lock only if this thread
// owns it. A few instructions, and never a call.
template <LockRank kRank>
class OwnedLock {
 public:
  [[gnu::always_inline]] explicit OwnedLock(const BiasedMutex<kRank>& mutex)
      : me_(mutex.owner_.load(std::memory_order_relaxed)) {
    if (me_ == nullptr || !me_->is_mine()) {
      me_ = nullptr;
      return;
    }
    BiasedMutex<kRank>::inside(me_).store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (mutex.owner_.load(std::memory_order_relaxed) == me_) [[likely]]
      return;
    BiasedMutex<kRank>::inside(me_).store(false, std::memory_order_release);
    me_ = nullptr;
  }
  [[gnu::always_inline]] ~OwnedLock() {
    if (me_ != nullptr) BiasedMutex<kRank>::inside(me_).store(false, std::memory_order_release);
  }
  OwnedLock(const OwnedLock&) = delete;
  OwnedLock& operator=(const OwnedLock&) = delete;

  bool is_held() const { return me_ != nullptr; }

 private:
  ThreadRecord* me_;  // null: not held
};

}  // namespace ashlar
