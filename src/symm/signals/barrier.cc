// SPDX-License-Identifier: Apache-2.0
//
// Checks arguments, runs the barrier algorithms of signal_steps.h on the pads, and implements the
// barrier across machines.
#include "symm/signals/barrier.h"

#include <algorithm>
#include <vector>

#include "symm/core/rank_info.h"
#include "symm/signals/remote_pads.h"
#include "symm/signals/signal_steps.h"
#include "symm/signals/timeout_errors.h"

namespace ashlar::symm {
namespace {

Status check(const SignalPads& pads, int channel) {
  if (Status wrong = pads.slots().check_channel(channel); !wrong.ok()) return wrong;
  return pads.slots().check_all_reachable();
}

// Returns the ranks that have not reached barrier `number`. In a dissemination barrier, each rank
// announces to the next rank first, so the next rank's pad is read.
std::vector<int> find_missing(const SignalPads& pads, int channel, BarrierKind kind,
                              uint64_t number) {
  std::vector<int> missing;
  for (int source = 0; source < pads.world_size(); ++source) {
    if (source == pads.rank()) continue;
    const int receiver =
        kind == BarrierKind::kAllToAll ? pads.rank() : (source + 1) % pads.world_size();
    const uint64_t* reached = pads.barrier(receiver, channel, source).value;
    if (SharedWords::load(reached, std::memory_order_relaxed) < number) missing.push_back(source);
  }
  return missing;
}

// One barrier of a group on several machines. The leader of each machine, its lowest rank, waits
// for the ranks on its machine, exchanges announcements with the other leaders, and releases the
// ranks on its machine.
class MultiMachineBarrier {
 public:
  MultiMachineBarrier(const SignalPads& pads, int channel, const Limits& limits)
      : pads_(pads),
        remote_(*pads.remote()),
        channel_(channel),
        limits_(limits),
        memory_(remote_.transport()),
        number_(next_barrier_number(pads, channel)),
        wait_limits_{.failure = limits.failure,
                     .deadline = limits.deadline,
                     .spin_policy = pads.spin_policy(),
                     .began = Deadline::Clock::now()} {}

  Status run() {
    const Status result = pads_.rank() == leader() ? lead() : follow();
    if (!result.ok()) return result;
    SharedWords::store(word(pads_.rank(), pads_.rank()).value, number_, std::memory_order_relaxed);
    memory_.synchronize();
    return {};
  }

 private:
  Status follow() {
    announce(memory_, word(leader(), pads_.rank()), number_);
    return wait_for(leader());
  }

  Status lead() {
    SharedWords::store(arrival_word(leader()), static_cast<uint32_t>(number_),
                       std::memory_order_relaxed);
    for (const int rank : followers()) {
      if (Status arrived = wait_for(rank); !arrived.ok()) return arrived;
    }
    for (const int other : other_leaders()) {
      const Status announced = remote_.announce(other, channel_, number_, limits_.deadline);
      if (announced.is(StatusKind::kTimeout))
        return barrier_timeout_error(pads_, channel_, {&other, 1}, wait_limits_.waited());
      if (!announced.ok()) return announced;
    }
    for (const int other : other_leaders()) {
      if (Status arrived = wait_for(other); !arrived.ok()) return arrived;
    }
    for (const int rank : followers()) announce(memory_, word(rank, pads_.rank()), number_);
    return {};
  }

  Status wait_for(int from) {
    switch (wait_for_counter(memory_, word(pads_.rank(), from), number_, wait_limits_)) {
      case WaitResult::kDone: return {};
      case WaitResult::kFailed: return limits_.failure.reason();
      case WaitResult::kTimeout: break;
    }
    return barrier_timeout_error(pads_, channel_, find_missing(), wait_limits_.waited());
  }

  // Returns the ranks that have not arrived. Only the leader of a machine has the arrivals of the
  // ranks there, so the arrivals on other machines are read from the leaders of those machines. A
  // leader that does not respond is the only rank of its machine in the result.
  std::vector<int> find_missing() {
    const Deadline deadline = Deadline::after(std::chrono::milliseconds(200));
    std::vector<int> missing;
    if (!has_arrived(SharedWords::load(arrival_word(leader()), std::memory_order_relaxed))) {
      missing.push_back(leader());
    }
    for (const int rank : followers()) {
      if (!has_announced(leader(), rank)) missing.push_back(rank);
    }
    for (const int other : other_leaders()) {
      if (has_announced(leader(), other)) continue;
      const Result<uint32_t> arrival = remote_.fetch_leader_arrival(other, channel_, deadline);
      if (!arrival.ok() || !has_arrived(*arrival)) missing.push_back(other);
      for (const int rank : followers_of(other)) {
        const Result<uint64_t> arrived = remote_.fetch_barrier(other, channel_, rank, deadline);
        if (arrived.ok() && *arrived < number_) missing.push_back(rank);
      }
    }
    std::sort(missing.begin(), missing.end());
    return missing;
  }
  // The word in which a leader records its arrival. The leader's own barrier word counts completed
  // barriers only.
  uint32_t* arrival_word(int leader) const {
    return &pads_.line(leader, channel_, leader).barrier_sleepers;
  }
  bool has_arrived(uint32_t arrival_word) const {
    return static_cast<int32_t>(arrival_word - static_cast<uint32_t>(number_)) >= 0;
  }
  bool has_announced(int owner, int source) const {
    return SharedWords::load(word(owner, source).value, std::memory_order_relaxed) >= number_;
  }

  int leader() const { return remote_.leader_of(pads_.rank()); }
  std::vector<int> followers() const { return followers_of(leader()); }
  std::vector<int> followers_of(int leader) const {
    std::vector<int> found;
    for (int rank = 0; rank < pads_.world_size(); ++rank) {
      if (rank != leader && remote_.leader_of(rank) == leader) found.push_back(rank);
    }
    return found;
  }
  std::vector<int> other_leaders() const {
    std::vector<int> found;
    for (int rank = 0; rank < pads_.world_size(); ++rank) {
      if (rank != leader() && remote_.leader_of(rank) == rank) found.push_back(rank);
    }
    return found;
  }
  WaitWord<uint64_t> word(int owner, int source) const {
    return pads_.barrier(owner, channel_, source);
  }

  const SignalPads& pads_;
  RemotePads& remote_;
  const int channel_;
  const Limits& limits_;
  PolledWords memory_;
  const uint64_t number_;
  WaitLimits wait_limits_;
};

Status multi_machine_barrier(const SignalPads& pads, int channel, const Limits& limits) {
  if (Status wrong = pads.slots().check_channel(channel); !wrong.ok()) return wrong;
  return MultiMachineBarrier(pads, channel, limits).run();
}

}  // namespace

Status barrier(const SignalPads& pads, int channel, const Limits& limits) {
  if (pads.remote() != nullptr) return multi_machine_barrier(pads, channel, limits);
  const bool is_small = pads.world_size() <= kAllToAllRanks;
  return barrier(pads, channel, is_small ? BarrierKind::kAllToAll : BarrierKind::kDissemination,
                 limits);
}

Status barrier(const SignalPads& pads, int channel, BarrierKind kind, const Limits& limits) {
  if (Status wrong = check(pads, channel); !wrong.ok()) return wrong;
  if (pads.world_size() == 1) return {};
  SharedWords memory;
  WaitLimits waiting{
      .failure = limits.failure, .deadline = limits.deadline, .spin_policy = pads.spin_policy()};
  const auto words = [&](int owner, int source) { return pads.barrier(owner, channel, source); };
  const RankInfo me{.rank = pads.rank(), .world_size = pads.world_size()};
  const WaitResult end = kind == BarrierKind::kAllToAll
                             ? all_to_all_barrier(memory, me, words, waiting)
                             : dissemination_barrier(memory, me, words, waiting);
  switch (end) {
    case WaitResult::kDone: return {};
    case WaitResult::kFailed: return limits.failure.reason();
    case WaitResult::kTimeout: break;
  }
  const uint64_t number = next_barrier_number(pads, channel);
  return barrier_timeout_error(pads, channel, find_missing(pads, channel, kind, number),
                               waiting.waited());
}

}  // namespace ashlar::symm
