// SPDX-License-Identifier: Apache-2.0
//
// How ClassicEngine holds its lock: for an act of a caller, and not while code of others runs.
#pragma once

#include "engine/classic/classic_engine.h"

namespace ashlar::classic {

// Holds the lock for a caller's act, which is recorded under the caller's stack. At its end, and
// without the lock, sources and trackers hear what came of it.
class ASHLAR_SCOPED_CAPABILITY ClassicEngine::Act {
 public:
  Act(ClassicEngine& engine, StackId stack) ASHLAR_ACQUIRE(engine.mutex_) : engine_(engine) {
    engine_.mutex_.lock();
    engine_.caller_stack_ = stack;
  }
  ~Act() ASHLAR_RELEASE() {
    engine_.give_back_to_sources();
    engine_.mutex_.unlock();
    engine_.hooks_.notify();
  }
  Act(const Act&) = delete;
  Act& operator=(const Act&) = delete;

 private:
  ClassicEngine& engine_;
};

// Lets go of the lock for a scope, in the middle of an act: others may act meanwhile.
class ASHLAR_SCOPED_CAPABILITY ClassicEngine::Pause {
 public:
  explicit Pause(ClassicEngine& engine) ASHLAR_RELEASE(engine.mutex_)
      : engine_(engine), stack_(engine.caller_stack_) {
    engine_.mutex_.unlock();
  }
  ~Pause() ASHLAR_RELEASE() {
    engine_.mutex_.lock();
    engine_.caller_stack_ = stack_;
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  ClassicEngine& engine_;
  const StackId stack_;
};

}  // namespace ashlar::classic
