// SPDX-License-Identifier: Apache-2.0
//
// Names the phases, and accumulates their times.
#include "symm/core/phase_times.h"

namespace ashlar::symm {

const char* name(Phase phase) {
  switch (phase) {
    case Phase::kJoining: return "joining";
    case Phase::kConfirming: return "confirming";
    case Phase::kConnecting: return "connecting";
    case Phase::kExchangingRecords: return "exchanging records";
    case Phase::kSendingHandles: return "sending handles";
    case Phase::kMapping: return "mapping";
    case Phase::kAgreeing: return "agreeing";
    case Phase::kMulticast: return "multicast";
  }
  return "unknown";
}

void PhaseTimes::begin(Phase phase, Clock::time_point since) {
  MutexLock lock(mutex_);
  end_locked(since);
  ++totals_[static_cast<size_t>(phase)].count;
  current_ = phase;
  since_ = since;
}

void PhaseTimes::end() {
  MutexLock lock(mutex_);
  end_locked(Clock::now());
}

void PhaseTimes::end_locked(Clock::time_point now) {
  if (!current_) return;
  totals_[static_cast<size_t>(*current_)].time += now - since_;
  current_.reset();
}

std::array<PhaseTimes::Total, kPhaseCount> PhaseTimes::totals() const {
  MutexLock lock(mutex_);
  return totals_;
}

}  // namespace ashlar::symm
