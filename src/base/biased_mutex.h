// SPDX-License-Identifier: Apache-2.0
//
// A mutex that is nearly always taken by the same thread, such as the lock of an arena. After many
// acquisitions in a row the mutex is biased to that thread, which then locks and unlocks it with
// two plain stores instead of an atomic exchange. This halves the cost of a short critical section.
// Another thread first revokes the bias with a membarrier(2) system call, which makes the owner's
// stores visible.
//
// Locking cannot fail. A thread without a ThreadRecord locks without bias.
//
// Critical sections must be short. A thread holds at most one mutex of each LockRank, except
// through lock_unbiased, and locks mutexes of a lower rank first.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/lock_watch.h"
#include "base/spin_mutex.h"

namespace ashlar {

// Returns an id of the calling thread that no other live thread has; never 0. A later thread may
// get the id of a thread that has ended. On x86-64 and aarch64, the id is the thread pointer, which
// one instruction reads. Reading a thread_local variable of a shared object takes a function call,
// which is too slow for the fast path.
[[gnu::always_inline]] inline uintptr_t thread_id_fast() {
#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__)
  uintptr_t id = 0;
  asm("movq %%fs:0, %0" : "=r"(id));
  return id;
#elif defined(__aarch64__) && defined(__linux__)
  uintptr_t id = 0;
  asm("mrs %0, tpidr_el0" : "=r"(id));
  return id;
#else
  static constinit thread_local char own = 0;
  return reinterpret_cast<uintptr_t>(&own);
#endif
}

// Names what a biased mutex protects. A thread locks mutexes of different ranks in this order.
enum class LockRank : uint8_t { kArena, kHistory };

// Per-thread state that other threads inspect to revoke a bias. A record is never freed: a new
// thread reuses the record of a thread that has ended, including the mutexes biased to the record.
// Every biased lock writes to the record, so each record has its own cache lines.
struct alignas(128) ThreadRecord {
  // Whether the thread is in a critical section that it entered through a bias, for each LockRank.
  std::array<std::atomic<bool>, 2> is_inside{};
  std::atomic<uintptr_t> thread_id{0};  // id of the thread; 0 if unused
  ThreadRecord* next = nullptr;         // next record in the list of unused records

  // Returns the record of the calling thread. Null if host memory ran out when it was created.
  static ThreadRecord* current() { return own_record != nullptr ? own_record : acquire(); }
  // Returns whether the record belongs to the calling thread.
  bool is_current() const { return thread_id.load(std::memory_order_relaxed) == thread_id_fast(); }

 private:
  static ThreadRecord* acquire();
  static constinit thread_local ThreadRecord* own_record;  // null until the first call of current
};

namespace bias {

// Returns whether mutexes can be biased: false if the system has no membarrier, or under
// ThreadSanitizer, which cannot model it.
bool is_supported();
// Executes a memory barrier on all threads of this process, so that the caller sees all stores that
// the threads have made so far.
void barrier_all_threads();

}  // namespace bias

// A mutex with a bias. It is locked with BiasedLock, OwnedLock or lock_unbiased.
template <LockRank kRank>
class ASHLAR_CAPABILITY("mutex") BiasedMutex {
 public:
  // Locks without bias, for callers that hold many mutexes. If the mutex is biased toward another
  // thread, revokes that bias.
  void lock_unbiased() ASHLAR_ACQUIRE() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    mutex_.lock();
    ThreadRecord* me = ThreadRecord::current();
    if (owner_.load(std::memory_order_relaxed) != me) revoke_bias(me);
  }
  void unlock_unbiased() ASHLAR_RELEASE() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    mutex_.unlock();
  }
  // Registers a watch: the next acquisition other than by lock_unbiased adds it to `list`. Adds
  // nothing to the fast path: `watch` clears the bias, and only the slow path, which all threads
  // take until the mutex is biased again, checks for watches. REQUIRES: the mutex is held by
  // lock_unbiased, and the watch is neither registered nor in a list.
  void watch(LockWatch& watch, LockWatchList& list) {
    watch.list = &list;
    watch.next = watches_;
    watches_ = &watch;
    owner_.store(nullptr, std::memory_order_relaxed);
    streak_ = 0;
  }

 private:
  template <LockRank>
  friend class BiasedLock;
  template <LockRank>
  friend class OwnedLock;
  static constexpr int kBiasThreshold = 64;  // consecutive acquisitions that establish the bias

  // `me` may be null.
  [[gnu::noinline]] void lock_slow(ThreadRecord* me)
      ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    mutex_.lock();
    revoke_bias(me);
    if (watches_ != nullptr) [[unlikely]]
      notify_watches();
    if (last_ == me && me != nullptr && bias::is_supported()) {
      if (++streak_ >= kBiasThreshold) owner_.store(me, std::memory_order_relaxed);
    } else {
      last_ = me;
      streak_ = 0;
    }
  }
  // Revokes the bias, if any. `me` may be null. REQUIRES: mutex_ is held.
  void revoke_bias(ThreadRecord* me) {
    ThreadRecord* owner = owner_.load(std::memory_order_relaxed);
    if (owner == nullptr) return;
    if (owner != me) wait_for_owner(owner);
    owner_.store(nullptr, std::memory_order_relaxed);
    streak_ = 0;
  }
  // REQUIRES: mutex_ is held.
  void notify_watches() {
    while (watches_ != nullptr) {
      LockWatch& watch = *watches_;
      watches_ = watch.next;
      watch.list->add(watch);
    }
  }
  // Revokes the bias and waits until the owner is outside of its critical section. After the
  // barrier, either this thread sees that the owner is inside, or the owner sees the revocation.
  void wait_for_owner(ThreadRecord* owner) {
    owner_.store(nullptr, std::memory_order_relaxed);
    bias::barrier_all_threads();
    for (int spins = 0; inside(owner).load(std::memory_order_acquire); ++spins) {
      if (spins > 64) std::this_thread::yield();
    }
  }

  static std::atomic<bool>& inside(ThreadRecord* thread) {
    return thread->is_inside[static_cast<size_t>(kRank)];
  }

  SpinMutex mutex_;
  std::atomic<ThreadRecord*> owner_{nullptr};
  ThreadRecord* last_ = nullptr;  // guarded by mutex_
  int streak_ = 0;                // guarded by mutex_
  LockWatch* watches_ = nullptr;  // guarded by mutex_; null while the mutex is biased
};

// Holds a biased mutex for a scope.
template <LockRank kRank>
class ASHLAR_SCOPED_CAPABILITY BiasedLock {
 public:
  [[gnu::always_inline]] explicit BiasedLock(BiasedMutex<kRank>& mutex) ASHLAR_ACQUIRE(mutex)
      : mutex_(mutex), me_(mutex.owner_.load(std::memory_order_relaxed)) {
    if (me_ != nullptr && me_->is_current()) [[likely]] {
      mutex_.inside(me_).store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (mutex_.owner_.load(std::memory_order_relaxed) == me_) [[likely]]
        return;
      mutex_.inside(me_).store(false, std::memory_order_release);
    }
    mutex_.lock_slow(ThreadRecord::current());
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
  ThreadRecord* me_;  // null: the mutex was locked without bias, so mutex_.mutex_ is held
};

// Holds a biased mutex for a scope, but only if the mutex is biased to this thread. Locking takes a
// few instructions and no call. A fast path checks is_held and falls back to its slow path.
template <LockRank kRank>
class OwnedLock {
 public:
  [[gnu::always_inline]] explicit OwnedLock(const BiasedMutex<kRank>& mutex)
      : me_(mutex.owner_.load(std::memory_order_relaxed)) {
    if (me_ == nullptr || !me_->is_current()) {
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
  ThreadRecord* me_;  // null: the mutex is not held
};

}  // namespace ashlar
