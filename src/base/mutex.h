// SPDX-License-Identifier: Apache-2.0
//
// Mutexes with clang's thread-safety annotations, which declare the lock that guards a field and
// the lock that a function requires. The annotations expand to nothing with other compilers.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ASHLAR_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define ASHLAR_THREAD_ATTRIBUTE(x)
#endif

#define ASHLAR_CAPABILITY(x) ASHLAR_THREAD_ATTRIBUTE(capability(x))
#define ASHLAR_SCOPED_CAPABILITY ASHLAR_THREAD_ATTRIBUTE(scoped_lockable)
#define ASHLAR_GUARDED_BY(x) ASHLAR_THREAD_ATTRIBUTE(guarded_by(x))
#define ASHLAR_REQUIRES(...) ASHLAR_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define ASHLAR_REQUIRES_SHARED(...) ASHLAR_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define ASHLAR_EXCLUDES(...) ASHLAR_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ASHLAR_ACQUIRE(...) ASHLAR_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define ASHLAR_ACQUIRE_SHARED(...) ASHLAR_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define ASHLAR_RELEASE(...) ASHLAR_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define ASHLAR_RELEASE_GENERIC(...) ASHLAR_THREAD_ATTRIBUTE(release_generic_capability(__VA_ARGS__))

namespace ashlar {

// A std::mutex with annotations.
class ASHLAR_CAPABILITY("mutex") Mutex {
 public:
  void lock() ASHLAR_ACQUIRE() { mutex_.lock(); }
  void unlock() ASHLAR_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex for a scope, and can wait on a condition variable.
class ASHLAR_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ASHLAR_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() ASHLAR_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // Waits for a notification, and may return without one. Callers loop,
  // `while (!ready_) lock.wait(changed_);`, so that the analysis sees the lock held.
  void wait(std::condition_variable& changed) { changed.wait(lock_); }
  // Like wait, but returns false if `end` passes without a notification.
  bool wait_until(std::condition_variable& changed, std::chrono::steady_clock::time_point end) {
    return changed.wait_until(lock_, end) == std::cv_status::no_timeout;
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

// Releases a held mutex for a scope, to call code that must not run under it.
class ASHLAR_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) ASHLAR_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexUnlock() ASHLAR_RELEASE() { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

// A reader-writer lock that prefers writers: with std::shared_mutex a stream of readers can delay a
// writer for seconds. A thread that holds the lock shared must not lock it again.
class ASHLAR_CAPABILITY("mutex") SharedMutex {
 public:
  SharedMutex() = default;
  ~SharedMutex() { ::pthread_rwlock_destroy(&lock_); }
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() ASHLAR_ACQUIRE() { ::pthread_rwlock_wrlock(&lock_); }
  void unlock() ASHLAR_RELEASE() { ::pthread_rwlock_unlock(&lock_); }
  void lock_shared() ASHLAR_ACQUIRE_SHARED() { ::pthread_rwlock_rdlock(&lock_); }
  void unlock_shared() ASHLAR_RELEASE() { ::pthread_rwlock_unlock(&lock_); }

 private:
  pthread_rwlock_t lock_ = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
};

class ASHLAR_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) ASHLAR_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriterLock() ASHLAR_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class ASHLAR_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) ASHLAR_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() ASHLAR_RELEASE() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace ashlar
