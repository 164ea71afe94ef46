// SPDX-License-Identifier: Apache-2.0
//
// The time that a pool may spend on saving memory: driver time for stitching, and host time for
// planning. Each accrues at a fixed share of the elapsed time, and faster while saving is urgent.
// This bounds how much saving memory slows a program down. Unspent time is kept, up to a bound.
// Requests that save much may spend time in advance.
//
// Planning also has a burst limit: a loop that only allocates and pauses now and then must not
// spend the budget that accrued during a pause on one burst of allocations. Large requests are
// exempt; otherwise a short burst could permanently cost a tenth more memory.
//
// Measurements behind the constants: docs/internals/experiments/paged_engine.md, sections "Budget",
// "Ablation" and "Sensitivity of constants".
//
// Invariant: no balance exceeds its maximum or falls below its minimum. Not thread safe: guarded by
// the engine's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ashlar::paged {

// Host time per extent, in microseconds, of driver calls on an H200 (rounded from
// src/device/sim/cost_model.cc).
inline constexpr double kMapUs = 34;  // map and set_access
inline constexpr double kUnmapUs = 23;
inline constexpr double kCreateUs = 13;

class StitchBudget {
 public:
  // Saving memory is urgent if the held memory far exceeds the peak of live memory.
  enum class Urgency { kNormal, kUrgent };

  // Charges driver time. The debt is bounded; otherwise, the engine could stop saving memory for
  // hours after a phase in which the budget does not apply.
  void spend_driver_us(double us) {
    for (Account& account : accounts_) {
      account.driver_us = std::max(account.driver_us - us, -kCreditUs);
    }
  }
  // Charges planning, counted in visits. The debt is bounded, so that it is paid off within
  // seconds.
  void spend_visits(int64_t count) {
    const auto visits = static_cast<double>(count);
    for (Account& account : accounts_) {
      account.balance_visits = std::max(account.balance_visits - visits, -kMaxDebtVisits);
    }
    burst_balance_visits_ =
        std::max(burst_balance_visits_ - visits, kMinBurstFactor * max_burst_visits());
  }
  // Accrues budget for the time since the last call. Returns whether the budget, including credit,
  // allows a plan that may save `saved_fraction` of the held memory.
  bool can_spend(Urgency urgency, double saved_fraction, int64_t now_ns) {
    accrue(now_ns);
    const double min_burst = urgency == Urgency::kUrgent ? -max_burst_visits() : 0;
    if (saved_fraction < kBurstExemptFraction && burst_balance_visits_ < min_burst) return false;
    const Account& account = accounts_[static_cast<size_t>(urgency)];
    return account.balance_visits > -kCreditVisits * saved_fraction &&
           account.driver_us > -kCreditUs * saved_fraction;
  }
  // Whether less than half of the highest planning balance is left. Searches then end early.
  bool is_planning_scarce() const {
    return accounts_[0].balance_visits < accounts_[0].highest_visits / 2;
  }

 private:
  static constexpr int64_t kNever = INT64_MIN;
  // Factors for the rates at which the accounts accrue, indexed by urgency. Without these factors,
  // kBurstExemptFraction, kMaxDebtVisits and the growth by 1/64 over budget, two trainings on an
  // H200 reserve 8 to 12 % more (section "Ablation"). Halving or doubling the factors changes the
  // reserved memory of one recorded run, by 0.5 %.
  static constexpr std::array<double, 2> kDriverFactors = {1, 4};
  static constexpr std::array<double, 2> kPlanningFactors = {1, 2};
  // Programs request most of their sizes for the first time in their first seconds. At normal
  // urgency the accounts accrue twice as fast then. Without this and the three other mechanisms for
  // programs that use up their planning budget (kMaxStartupBurstVisits, kCreditVisits and
  // is_planning_scarce), a mixture of experts on an H200 reserves 1.051 instead of 1.033 times what
  // it requests (section "Ablation").
  static constexpr double kStartupFactor = 2;
  static constexpr double kStartupNs = 3e9;
  // The driver may take 1 % of the elapsed time, and planning 0.75 % (kVisitsPerNs). The recorded
  // runs reserve the same amount of memory with 1.5 % for planning, since they exhaust neither. A
  // visit is the unit of planning cost (idle_map.h) and takes about 5 ns. Visits are counted
  // instead of timed so that replays are reproducible.
  static constexpr double kDriverUsPerNs = 0.01 / 1000;
  // The initial balances (this one and kInitialVisits) are 5 ms each. With 50 ms of driver time and
  // 100 ms of planning time, a loop of allocations spent both within half a second, at 5 us per
  // allocation.
  static constexpr double kInitialDriverUs = 5'000;
  // The maximum balance of driver time. Halving or doubling this bound or kMaxVisits changes no
  // recorded run.
  static constexpr double kMaxDriverUs = 1'000'000;
  // Driver time that may be spent in advance to save all of the held memory, and the maximum debt,
  // which is paid off in 100 s at normal urgency. Without the credit,
  // gnn_sampling reserved 1.485 instead of 1.005 times its peak of live bytes (section "Ablation").
  static constexpr double kCreditUs = 1'000'000;
  static constexpr double kVisitsPerMs = 200'000;
  static constexpr double kVisitsPerNs = 0.0075 * kVisitsPerMs / 1e6;
  // Bursts may take 2 % of the elapsed time. With 10 %, the recorded runs map as often and reserve
  // the same amount of memory.
  static constexpr double kBurstVisitsPerNs = 0.02 * kVisitsPerMs / 1e6;
  // The maximum burst balance: twice the 0.8 ms that the recorded runs needed. With 0.4 ms,
  // moe_streams reserved 1.048 times its peak of live bytes instead of 1.015 times.
  static constexpr double kMaxBurstVisits = 1.6 * kVisitsPerMs;
  // The same bound in the first three seconds. With 0.5 ms (and 20 ms of driver time), programs
  // that begin with many sizes reserved a quarter more memory (`ashlar demo`).
  static constexpr double kMaxStartupBurstVisits = 5 * kVisitsPerMs;
  // The lowest burst balance, as a multiple of the maximum. From there, all requests may plan again
  // after 160 ms (after 500 ms in the first three seconds). Urgent requests may plan until half of
  // this debt is reached. Halving or doubling these limits changes no recorded run.
  static constexpr double kMinBurstFactor = -2;
  static constexpr double kInitialVisits = 5 * kVisitsPerMs;
  static constexpr double kMaxVisits = 100 * kVisitsPerMs;
  // Planning that may be spent in advance to save all of the held memory.
  static constexpr double kCreditVisits = kMaxVisits;
  // The maximum planning debt, which is paid off in 4.3 s at normal urgency. Halving or doubling it
  // changes no recorded run.
  static constexpr double kMaxDebtVisits = 32 * kVisitsPerMs;
  // Requests of at least this fraction of the held memory are exempt from the burst limit; without
  // the exemption, a step with many plans reserved a tenth to a third more memory. The fraction is
  // greater than the 1/64 by which an over-budget request grows the pool
  // (Stitcher::over_budget_growth_bytes).
  static constexpr double kBurstExemptFraction = 1.0 / 50;

  struct Account {
    double driver_us = kInitialDriverUs;
    double balance_visits = kInitialVisits;
    double highest_visits = kInitialVisits;

    void accrue(double driver_ns, double planning_ns) {
      driver_us = std::min(driver_us + kDriverUsPerNs * driver_ns, kMaxDriverUs);
      balance_visits = std::min(balance_visits + kVisitsPerNs * planning_ns, kMaxVisits);
      highest_visits = std::max(highest_visits, balance_visits);
    }
  };

  void accrue(int64_t now_ns) {
    const auto elapsed_ns = last_ns_ == kNever ? 0 : static_cast<double>(now_ns - last_ns_);
    last_ns_ = now_ns;
    const double startup_ns = std::min(elapsed_ns, startup_left_ns_);
    startup_left_ns_ -= startup_ns;
    burst_balance_visits_ =
        std::min(burst_balance_visits_ + kBurstVisitsPerNs * elapsed_ns, max_burst_visits());
    const auto weighted_ns = [&](double factor) {
      return std::max(factor, kStartupFactor) * startup_ns + factor * (elapsed_ns - startup_ns);
    };
    for (size_t i = 0; i < accounts_.size(); ++i) {
      accounts_[i].accrue(weighted_ns(kDriverFactors[i]), weighted_ns(kPlanningFactors[i]));
    }
  }
  double max_burst_visits() const {
    return startup_left_ns_ > 0 ? kMaxStartupBurstVisits : kMaxBurstVisits;
  }

  std::array<Account, 2> accounts_;  // indexed by urgency
  double burst_balance_visits_ = kMaxStartupBurstVisits;
  int64_t last_ns_ = kNever;
  double startup_left_ns_ = kStartupNs;
};

}  // namespace ashlar::paged
