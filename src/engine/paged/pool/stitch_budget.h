// SPDX-License-Identifier: Apache-2.0
//
// The time that a pool may spend on saving memory: driver time for stitching, and host time for
// planning. Both are a fixed share of the elapsed time, larger while saving is urgent, which bounds
// how much saving memory slows a program down. Unspent time is kept, up to a bound. Requests that
// save much may spend driver time in advance.
//
// Planning also has a burst limit: a loop that only allocates and pauses now and then must not
// spend the budget that accrued during a pause on one burst of allocations. Large requests are
// exempt; otherwise a short burst could permanently cost a tenth more memory.
//
// Measurements behind the constants: docs/internals/experiments/paged_engine.md, sections "Budget",
// "Ablation" and "Sensitivity of constants".
//
// Invariant: no balance exceeds its maximum, and balances of visits do not fall below their
// minimum. Not thread safe: guarded by the engine's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ashlar::paged {

// Host time per extent, in microseconds, of driver calls on an H200 (the figures of
// src/device/sim/cost_model.cc).
inline constexpr double kMapUs = 34;  // map and set_access
inline constexpr double kUnmapUs = 23;
inline constexpr double kCreateUs = 13;

class StitchBudget {
 public:
  // Saving memory is urgent if the held memory far exceeds the peak of live memory.
  enum class Urgency { kNormal, kUrgent };

  void spend_driver_us(double us) {
    for (Account& account : accounts_) account.driver_us -= us;
  }
  // Charges visits. Planning debt is bounded, so that it is paid off within seconds.
  void spend_visits(int64_t count) {
    const auto visits = static_cast<double>(count);
    for (Account& account : accounts_) {
      account.visits = std::max(account.visits - visits, -kMaxDebtVisits);
    }
    burst_visits_ = std::max(burst_visits_ - visits, kMinBurstVisits);
  }
  // Accrues budget for the time since the last call. Returns whether the budget, including credit,
  // allows a plan that may save `saved_fraction` of the held memory.
  bool can_spend(Urgency urgency, double saved_fraction, int64_t now_ns) {
    accrue(now_ns);
    const double min_burst = urgency == Urgency::kUrgent ? kMinUrgentBurstVisits : 0;
    if (saved_fraction < kBurstExemptFraction && burst_visits_ < min_burst) return false;
    const Account& account = accounts_[static_cast<size_t>(urgency)];
    return account.visits > 0 && account.driver_us > -kCreditUs * saved_fraction;
  }

 private:
  static constexpr int64_t kNever = INT64_MIN;
  // Factors by which the accounts accrue faster, indexed by urgency. Without them and three other
  // mechanisms, two trainings on an H200 reserve 8 to 12 % more (section "Ablation"). Halving or
  // doubling the factors changes the reserved memory of one recorded run, by 0.5 %.
  static constexpr std::array<double, 2> kDriverFactors = {1, 4};
  static constexpr std::array<double, 2> kPlanningFactors = {1, 2};
  // 1 % of the time for the driver and 0.75 % for planning. The recorded runs reserve the same
  // amount of memory with 0.75 % as with 1.5 %, since they exhaust neither. A visit is the unit of
  // planning cost (idle_map.h) and takes about 5 ns. Visits are counted instead of timed so that
  // replays are reproducible.
  static constexpr double kDriverUsPerNs = 0.01 / 1000;
  // The initial balances (this one and kInitialVisits) are 5 ms each. With 50 ms of driver time and
  // 100 ms of planning time, a loop of allocations spent both within half a second, at 5 us per
  // allocation.
  static constexpr double kInitialDriverUs = 5'000;
  // Maximum balance. Halving or doubling this bound or kMaxVisits changes no recorded run.
  static constexpr double kMaxDriverUs = 1'000'000;
  // Driver time that may be spent in advance to save all of the held memory. Without it,
  // gnn_sampling reserved 1.485 instead of 1.005 times its peak of live bytes (section "Ablation").
  static constexpr double kCreditUs = 1'000'000;
  static constexpr double kVisitsPerMs = 200'000;
  static constexpr double kVisitsPerNs = 0.0075 * kVisitsPerMs / 1e6;
  // With 2 % of the time, the recorded runs map as often and reserve as much memory as with 10 %.
  static constexpr double kBurstVisitsPerNs = 0.02 * kVisitsPerMs / 1e6;
  // Twice the 0.8 ms that the recorded runs needed. With 0.4 ms, moe_streams reserved 1.048 times
  // its peak of live bytes instead of 1.015 times.
  static constexpr double kMaxBurstVisits = 1.6 * kVisitsPerMs;
  // The lowest balance at which urgent requests may plan, and the lowest possible balance, which
  // lets all requests plan again after 160 ms. Halving or doubling them changes no recorded run.
  static constexpr double kMinUrgentBurstVisits = -kMaxBurstVisits;
  static constexpr double kMinBurstVisits = -2 * kMaxBurstVisits;
  static constexpr double kInitialVisits = 5 * kVisitsPerMs;
  static constexpr double kMaxVisits = 100 * kVisitsPerMs;
  // The maximum planning debt, which is paid off in 4.3 s at normal urgency. Halving or doubling it
  // changes no recorded run.
  static constexpr double kMaxDebtVisits = 32 * kVisitsPerMs;
  // Requests from this fraction of the held memory on are exempt from the burst limit; without the
  // exemption, a step with many plans reserved a tenth to a third more memory. Greater than the
  // 1/64 by which an over-budget request grows the pool (Stitcher::over_budget_growth_bytes).
  static constexpr double kBurstExemptFraction = 1.0 / 50;

  struct Account {
    double driver_us = kInitialDriverUs;
    double visits = kInitialVisits;

    void accrue(double driver_ns, double planning_ns) {
      driver_us = std::min(driver_us + kDriverUsPerNs * driver_ns, kMaxDriverUs);
      visits = std::min(visits + kVisitsPerNs * planning_ns, kMaxVisits);
    }
  };

  void accrue(int64_t now_ns) {
    const auto elapsed_ns = last_ns_ == kNever ? 0 : static_cast<double>(now_ns - last_ns_);
    last_ns_ = now_ns;
    burst_visits_ = std::min(burst_visits_ + kBurstVisitsPerNs * elapsed_ns, kMaxBurstVisits);
    for (size_t i = 0; i < accounts_.size(); ++i) {
      accounts_[i].accrue(kDriverFactors[i] * elapsed_ns, kPlanningFactors[i] * elapsed_ns);
    }
  }

  std::array<Account, 2> accounts_;  // indexed by urgency
  double burst_visits_ = kMaxBurstVisits;
  int64_t last_ns_ = kNever;
};

}  // namespace ashlar::paged
