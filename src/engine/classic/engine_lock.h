// SPDX-License-Identifier: Apache-2.0
//
// Scoped locks of ClassicEngine: one holds the lock for a public operation, and one releases it
// around user code and slow device calls.
#pragma once

#include "engine/classic/classic_engine.h"

namespace ashlar::classic {

// Holds the engine's lock for a public operation, whose trace entries get the caller's stack. On
// destruction, returns segments to their sources and notifies trackers, both without the lock.
class ASHLAR_SCOPED_CAPABILITY ClassicEngine::OperationLock {
 public:
  OperationLock(ClassicEngine& engine, StackId stack) ASHLAR_ACQUIRE(engine.mutex_)
      : engine_(engine) {
    engine_.mutex_.lock();
    engine_.tracer_.set_caller_stack(stack);
  }
  ~OperationLock() ASHLAR_RELEASE() {
    engine_.return_queued_segments();
    engine_.mutex_.unlock();
    engine_.hooks_.notify();
  }
  OperationLock(const OperationLock&) = delete;
  OperationLock& operator=(const OperationLock&) = delete;

 private:
  ClassicEngine& engine_;
};

// Releases the lock for a scope inside an operation. Other threads may change the engine meanwhile.
class ASHLAR_SCOPED_CAPABILITY ClassicEngine::Unlock {
 public:
  explicit Unlock(ClassicEngine& engine) ASHLAR_RELEASE(engine.mutex_)
      : engine_(engine), stack_(engine.tracer_.caller_stack()) {
    engine_.mutex_.unlock();
  }
  ~Unlock() ASHLAR_RELEASE() {
    engine_.mutex_.lock();
    engine_.tracer_.set_caller_stack(stack_);
  }
  Unlock(const Unlock&) = delete;
  Unlock& operator=(const Unlock&) = delete;

 private:
  ClassicEngine& engine_;
  const StackId stack_;
};

}  // namespace ashlar::classic
