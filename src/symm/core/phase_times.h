// SPDX-License-Identifier: Apache-2.0
//
// Measures how long the phases of joining a group and of a rendezvous take on this rank.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/mutex.h"

namespace ashlar::symm {

// Phases of joining and of a rendezvous, in order. Reported in group statistics; tests inject
// faults at phase boundaries.
enum class Phase {
  kJoining,     // publishes the join record; waits until all ranks have read the same records
  kConfirming,  // waits until every rank has the member list
  kConnecting,  // compares the join records; connects to the other ranks
  kExchangingRecords,  // exchanges rendezvous records
  kSendingHandles,     // sends memory handles, once the rendezvous records agree
  kMapping,            // maps the memory of the other ranks
  kAgreeing,           // waits until all ranks have mapped or failed
  kMulticast,          // sets up multicast, if all ranks support it
};
inline constexpr size_t kPhaseCount = 8;

const char* name(Phase phase);

// Accumulates time per phase. A phase lasts until the next `begin` or `end`; phases do not overlap.
// Thread safe.
class PhaseTimes {
 public:
  using Clock = std::chrono::steady_clock;
  struct Total {
    uint64_t count = 0;
    std::chrono::nanoseconds time{0};
  };

  // Ends the current phase, if any, and begins `phase`, both at the time `since`, which may be in
  // the past.
  void begin(Phase phase, Clock::time_point since = Clock::now()) ASHLAR_EXCLUDES(mutex_);
  void end() ASHLAR_EXCLUDES(mutex_);
  // The total time of each phase, indexed by Phase.
  std::array<Total, kPhaseCount> totals() const ASHLAR_EXCLUDES(mutex_);

 private:
  void end_locked(Clock::time_point now) ASHLAR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::array<Total, kPhaseCount> totals_ ASHLAR_GUARDED_BY(mutex_){};
  std::optional<Phase> current_ ASHLAR_GUARDED_BY(mutex_);
  Clock::time_point since_ ASHLAR_GUARDED_BY(mutex_){};
};

// Ends the current phase of a PhaseTimes at the end of the scope.
class PhaseScope {
 public:
  explicit PhaseScope(PhaseTimes& times) : times_(times) {}
  ~PhaseScope() { times_.end(); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  PhaseTimes& times_;
};

}  // namespace ashlar::symm
