// SPDX-License-Identifier: Apache-2.0
//
// Where the time of joining and of rendezvous goes, on this rank.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/mutex.h"

namespace ashlar::symm {

// How far a rank has got, for whoever wants to watch (or, in tests, to interfere).
enum class Phase {
  kJoining,      // before it is known to others
  kMeeting,      // all records are read; nobody has been met yet
  kLinking,      // all records agree; connections are made next
  kRecording,    // before it says what it brings to a rendezvous
  kHandingOver,  // all records agree; memory is handed over next
  kMapping,      // handed over; the others' is mapped next
  kAgreeing,     // done; the others say next whether they are
  kMulticast,    // all have mapped; multicast is set up next, if all can
};
inline constexpr size_t kPhaseCount = 8;

const char* name(Phase phase);

// A phase lasts until the next is reached, or what it is part of ends. Thread safe; one act at a
// time.
class PhaseTimes {
 public:
  using Clock = std::chrono::steady_clock;
  struct Line {
    uint64_t count = 0;
    std::chrono::nanoseconds time{0};  // of all of them together
  };

  // Since then, if it began before anybody could note it.
  void reach(Phase phase, Clock::time_point since = Clock::now()) ASHLAR_EXCLUDES(mutex_);
  void end() ASHLAR_EXCLUDES(mutex_);
  std::array<Line, kPhaseCount> lines() const ASHLAR_EXCLUDES(mutex_);  // by phase

 private:
  void end_locked(Clock::time_point now) ASHLAR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::array<Line, kPhaseCount> lines_ ASHLAR_GUARDED_BY(mutex_){};
  std::optional<Phase> current_ ASHLAR_GUARDED_BY(mutex_);
  Clock::time_point since_ ASHLAR_GUARDED_BY(mutex_){};
};

// Ends the phase that is the last one when it goes.
class PhaseEnd {
 public:
  explicit PhaseEnd(PhaseTimes& times) : times_(times) {}
  ~PhaseEnd() { times_.end(); }
  PhaseEnd(const PhaseEnd&) = delete;
  PhaseEnd& operator=(const PhaseEnd&) = delete;

 private:
  PhaseTimes& times_;
};

}  // namespace ashlar::symm
