// SPDX-License-Identifier: Apache-2.0
//
// The lock of a paged engine, shared by all of its components.
//
// Clang's analysis cannot tell that the mutex of an engine and a component's reference to it are
// the same lock. `engine_lock` is a role that represents the lock: EngineLock acquires the role,
// fields of components are guarded by it (`ASHLAR_GUARDED_BY`), and their functions require it
// (`ASHLAR_REQUIRES`). A component belongs to one engine, so the role is never ambiguous.
#pragma once

#include <condition_variable>
#include <utility>

#include "ashlar/status.h"
#include "base/mutex.h"

namespace ashlar::paged {

class ASHLAR_CAPABILITY("engine lock") EngineLockRole {};
inline EngineLockRole engine_lock;

class EngineMutex {
 private:
  friend class EngineLock;
  friend class EngineUnlock;
  Mutex mutex_;
};

// Holds the engine's lock for a scope, and can wait on a condition variable.
class ASHLAR_SCOPED_CAPABILITY EngineLock {
 public:
  explicit EngineLock(EngineMutex& mutex) ASHLAR_ACQUIRE(engine_lock) : lock_(mutex.mutex_) {}
  ~EngineLock() ASHLAR_RELEASE() {}
  EngineLock(const EngineLock&) = delete;
  EngineLock& operator=(const EngineLock&) = delete;

  void wait(std::condition_variable& changed) { lock_.wait(changed); }

 private:
  MutexLock lock_;
};

// Releases the held lock for a scope, to call user code or to wait for the device.
class ASHLAR_SCOPED_CAPABILITY EngineUnlock {
 public:
  explicit EngineUnlock(EngineMutex& mutex) ASHLAR_RELEASE(engine_lock)
      ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis)
      : mutex_(mutex.mutex_) {
    mutex_.unlock();
  }
  ~EngineUnlock() ASHLAR_RELEASE() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    mutex_.lock();
  }
  EngineUnlock(const EngineUnlock&) = delete;
  EngineUnlock& operator=(const EngineUnlock&) = delete;

 private:
  Mutex& mutex_;
};

// A device error from a function that cannot return it. The next allocation or trim reports it.
class DeferredError {
 public:
  bool ok() const ASHLAR_REQUIRES(engine_lock) { return status_.ok(); }
  // Keeps the first error, which explains the later ones. A lack of host memory is no device error.
  void record(Status error) ASHLAR_REQUIRES(engine_lock) {
    if (error.is(StatusKind::kHostOutOfMemory)) return;
    if (status_.ok()) status_ = std::move(error);
  }
  Status take() ASHLAR_REQUIRES(engine_lock) { return std::exchange(status_, {}); }

 private:
  Status status_ ASHLAR_GUARDED_BY(engine_lock);
};

}  // namespace ashlar::paged
