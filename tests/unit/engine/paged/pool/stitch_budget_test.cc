// SPDX-License-Identifier: Apache-2.0
//
// Tests of the budget, and of programs that use all of it.
#include "engine/paged/pool/stitch_budget.h"

#include "base/random.h"
#include "unit/engine/paged/paged_fixture.h"

namespace ashlar::paged {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kVisitsPerMs = 200'000;        // at 5 ns per visit
constexpr int64_t kLaterNs = 20'000 * kNsPerMs;  // long enough to fill every balance
constexpr double kNoSaving = 0;                  // earns no credit
using enum StitchBudget::Urgency;

// Returns a budget that has existed for a while and has no balance left for planning.
StitchBudget spent_budget() {
  StitchBudget budget;
  (void)budget.can_spend(kNormal, kNoSaving, 0);
  (void)budget.can_spend(kNormal, kNoSaving, kLaterNs);
  budget.spend_visits(100 * kVisitsPerMs);
  return budget;
}

int64_t visits_between(StitchBudget& budget, StitchBudget::Urgency urgency, int64_t begin_ns,
                       int64_t end_ns) {
  int64_t visits = 0;
  for (int64_t now_ns = begin_ns + kNsPerMs; now_ns <= end_ns; now_ns += kNsPerMs) {
    for (; budget.can_spend(urgency, kNoSaving, now_ns); visits += 1000) budget.spend_visits(1000);
  }
  return visits;
}

TEST(StitchBudgetTest, PlanningAccrues0_75PercentOfTime) {
  StitchBudget budget = spent_budget();
  const auto visits =
      static_cast<double>(visits_between(budget, kNormal, kLaterNs, kLaterNs + 10'000 * kNsPerMs));
  EXPECT_NEAR(visits, 10'000 * 0.0075 * kVisitsPerMs, 2000);
}

TEST(StitchBudgetTest, UrgentPlanningAccruesTwiceAsMuch) {
  StitchBudget budget = spent_budget();
  const auto visits =
      static_cast<double>(visits_between(budget, kUrgent, kLaterNs, kLaterNs + 10'000 * kNsPerMs));
  EXPECT_NEAR(visits, 10'000 * 0.015 * kVisitsPerMs, 2000);
  EXPECT_FALSE(budget.can_spend(kNormal, kNoSaving, kLaterNs + 10'000 * kNsPerMs))
      << "all accounts are charged";
}

TEST(StitchBudgetTest, AccruesTwiceAsFastDuringStartup) {
  StitchBudget budget;
  (void)budget.can_spend(kNormal, kNoSaving, 0);
  const auto visits = static_cast<double>(visits_between(budget, kNormal, 0, 3000 * kNsPerMs));
  EXPECT_NEAR(visits, (5 + 3000 * 0.015) * kVisitsPerMs, 2000);
}

TEST(StitchBudgetTest, KeepsUnspentPlanningUpToItsBound) {
  StitchBudget budget;
  const int64_t hour = 3'600'000 * kNsPerMs;
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, 0));
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, hour));
  budget.spend_visits(96 * kVisitsPerMs);
  EXPECT_FALSE(budget.can_spend(kNormal, kNoSaving, hour)) << "the burst limit applies";
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, hour + 200 * kNsPerMs));
  budget.spend_visits(8 * kVisitsPerMs);
  EXPECT_FALSE(budget.can_spend(kNormal, kNoSaving, hour + 400 * kNsPerMs));
}

TEST(StitchBudgetTest, DebtIsPaidOffWithinSeconds) {
  StitchBudget budget = spent_budget();
  for (int i = 0; i < 1000; ++i) budget.spend_visits(800 * kVisitsPerMs);
  EXPECT_FALSE(budget.can_spend(kNormal, kNoSaving, kLaterNs + 4200 * kNsPerMs));
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, kLaterNs + 4400 * kNsPerMs));
}

// A loop that only allocates, after a long pause, must not spend all of the budget that accrued
// during the pause.
TEST(StitchBudgetTest, LimitsBurstsOfPlanning) {
  StitchBudget budget = spent_budget();
  const int64_t begin_ns = kLaterNs + 60'000 * kNsPerMs;
  (void)budget.can_spend(kNormal, kNoSaving, begin_ns);
  const auto visits =
      static_cast<double>(visits_between(budget, kNormal, begin_ns, begin_ns + 20 * kNsPerMs));
  EXPECT_NEAR(visits, (1.6 + 0.02 * 19) * kVisitsPerMs, 2000);
}

// If the burst limit applied to large requests, they would get new memory, which the engine would
// then keep.
TEST(StitchBudgetTest, ExemptsLargeRequestsFromTheBurstLimit) {
  StitchBudget budget = spent_budget();
  const int64_t now_ns = kLaterNs + 60'000 * kNsPerMs;
  (void)budget.can_spend(kNormal, kNoSaving, now_ns);
  budget.spend_visits(6 * kVisitsPerMs);
  EXPECT_FALSE(budget.can_spend(kUrgent, kNoSaving, now_ns));
  EXPECT_FALSE(budget.can_spend(kUrgent, 1.0 / 64, now_ns)) << "too small to be exempt";
  EXPECT_TRUE(budget.can_spend(kUrgent, 1.0 / 40, now_ns));
  EXPECT_TRUE(budget.can_spend(kNormal, 1.0 / 40, now_ns));
  budget.spend_visits(150 * kVisitsPerMs);
  EXPECT_FALSE(budget.can_spend(kUrgent, 1.0 / 40, now_ns)) << "must be charged nevertheless";
}

TEST(StitchBudgetTest, DriverDebtIsPaidOffWithinMinutes) {
  StitchBudget budget = spent_budget();
  for (int i = 0; i < 1000; ++i) budget.spend_driver_us(10e6);
  EXPECT_FALSE(budget.can_spend(kNormal, kNoSaving, kLaterNs + 99'000 * kNsPerMs));
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, kLaterNs + 101'000 * kNsPerMs));
}

TEST(StitchBudgetTest, GrantsPlanningCreditForLargeSavings) {
  StitchBudget budget = spent_budget();
  budget.spend_visits(16 * kVisitsPerMs);
  EXPECT_FALSE(budget.can_spend(kNormal, 0.1, kLaterNs + 200 * kNsPerMs));
  EXPECT_TRUE(budget.can_spend(kNormal, 0.2, kLaterNs + 200 * kNsPerMs));
}

TEST(StitchBudgetTest, PlanningIsScarceBelowHalfOfTheHighestBalance) {
  StitchBudget budget;
  EXPECT_FALSE(budget.is_planning_scarce());
  (void)budget.can_spend(kNormal, kNoSaving, 0);
  (void)budget.can_spend(kNormal, kNoSaving, kLaterNs);
  EXPECT_FALSE(budget.is_planning_scarce());
  budget.spend_visits(48 * kVisitsPerMs);
  EXPECT_FALSE(budget.is_planning_scarce());
  budget.spend_visits(8 * kVisitsPerMs);
  EXPECT_TRUE(budget.is_planning_scarce());
}

TEST(StitchBudgetTest, DriverAccruesOnePercentOfTime) {
  StitchBudget budget;
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, 0));
  budget.spend_driver_us(4'000);
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, 0));
  budget.spend_driver_us(2'000);
  EXPECT_FALSE(budget.can_spend(kNormal, kNoSaving, 0));
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, 51 * kNsPerMs)) << "twice as fast at startup";
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, kLaterNs));
  budget.spend_driver_us(5'000 - 6'000 + 60'000 + 170'000 + 2'000);  // the whole balance and 2 ms
  EXPECT_FALSE(budget.can_spend(kNormal, kNoSaving, kLaterNs + 150 * kNsPerMs));
  EXPECT_TRUE(budget.can_spend(kUrgent, kNoSaving, kLaterNs + 150 * kNsPerMs));
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, kLaterNs + 210 * kNsPerMs));
}

TEST(StitchBudgetTest, GrantsDriverCreditForLargeSavings) {
  StitchBudget budget;
  EXPECT_TRUE(budget.can_spend(kNormal, kNoSaving, 0));
  budget.spend_driver_us(5'000 + 90'000);
  EXPECT_FALSE(budget.can_spend(kNormal, kNoSaving, 210 * kNsPerMs));
  EXPECT_TRUE(budget.can_spend(kNormal, 0.1, 210 * kNsPerMs));
  budget.spend_driver_us(40'000);
  EXPECT_FALSE(budget.can_spend(kNormal, 0.1, 420 * kNsPerMs));
  EXPECT_TRUE(budget.can_spend(kNormal, 0.2, 420 * kNsPerMs));
}

// A fixture for programs whose request sizes rarely repeat.
class BudgetedProgramTest : public PagedFixture {
 protected:
  void start_with_clock() {
    start({}, 64 * kGiB);
    engine_ = std::make_unique<PagedEngine>(device(), AllocatorOptions{}, &clock_);
  }
  Block* allocate_within(size_t bytes, int64_t step_ns) {
    clock_.advance_ns(step_ns / 240);
    return allocate(bytes);
  }
  // A training step: activations are kept until the backward pass, which frees them one by one and
  // allocates two temporaries for each. Steps rarely have the same sizes.
  void train_step(int64_t step_ns = 0) {
    const size_t length = 100 + random_.below(1400);
    std::vector<Block*> kept;
    for (int layer = 0; layer < 6; ++layer) {
      for (const size_t part : {1, 1, 3, 1, 1, 1, 1, 4, 4, 1}) {
        Block* temporary = allocate_within(length * 4096 * part + 512 * part, step_ns);
        kept.push_back(allocate_within(length * 4096 * part, step_ns));
        free(temporary);
      }
    }
    while (!kept.empty()) {
      Block* temporary = allocate_within(kept.back()->bytes, step_ns);
      free(kept.back());
      kept.pop_back();
      Block* another = allocate_within(length * 16384, step_ns);
      free(temporary);
      free(another);
    }
  }
  // Holds 100 blocks of 1 to 16 MiB and replaces random blocks. Sizes rarely repeat.
  void churn(int64_t step_ns) {
    std::vector<Block*> live(100, nullptr);
    for (int i = 0; i < 20'000; ++i) {
      Block*& block = live[random_.below(live.size())];
      if (block != nullptr) free(block);
      clock_.advance_ns(step_ns);
      block = allocate(kMiB + random_.below(15 * kMiB));
    }
  }
  double reserved_to_live_ratio() const {
    const AllocatorStats found = stats();
    return static_cast<double>(found.reserved_bytes.all.peak) /
           static_cast<double>(found.allocated_bytes.all.peak);
  }

#if defined(ASHLAR_INVARIANTS) || defined(__SANITIZE_THREAD__)
  static constexpr int kSteps = 20;
#else
  static constexpr int kSteps = 1500;  // enough to use up the initial planning budget
#endif
  ManualClock clock_;
  Random random_{1};
};

TEST_F(BudgetedProgramTest, SlowStepsReserveLittleMoreThanIsLive) {
  start_with_clock();
  for (int i = 0; i < kSteps; ++i) train_step(30 * kNsPerMs);
  EXPECT_LE(reserved_to_live_ratio(), 1.12);
}

// Compares the stitched extents per second with a fast and a slow driver. Only driver calls take
// time.
TEST_F(BudgetedProgramTest, SlowDriverIsCalledLess) {
  const auto stitched = [this](std::chrono::microseconds delay) {
    start({}, 64 * kGiB);
    engine_ = std::make_unique<PagedEngine>(device(), AllocatorOptions{}, &machine_->clock());
    machine_->inject({.call = DeviceCall::kSetAccess,
                      .count = sim::FaultRule::kForever,
                      .action = sim::FaultAction::kDelay,
                      .delay = delay});
    random_ = Random(1);
    const int64_t begin_ns = machine_->clock().now_ns();
    for (int i = 0; i < 20; ++i) train_step();
    const auto elapsed_ns = static_cast<double>(machine_->clock().now_ns() - begin_ns);
    return static_cast<double>(calls(DeviceCall::kMap) - calls(DeviceCall::kCreate)) / elapsed_ns;
  };
  const double quick = stitched(std::chrono::microseconds(0));
  const double slow = stitched(std::chrono::milliseconds(3));
  EXPECT_GT(slow, 0);
  EXPECT_LT(slow, quick / 2);
}

// While the device has queued work, it does not wait for the host, so less is charged for mapping.
TEST_F(BudgetedProgramTest, BusyStreamIsChargedLess) {
  const auto stitched = [this](bool is_busy) {
    start_with_clock();
    if (is_busy) keep_busy(kDefaultStream);
    random_ = Random(1);
    churn(20 * kNsPerMs / 1000);
    if (is_busy) finish(kDefaultStream);
    return calls(DeviceCall::kMap) - calls(DeviceCall::kCreate);
  };
  const auto idle = stitched(false);
  const auto busy = stitched(true);
  EXPECT_GT(idle, 0);
  EXPECT_GT(busy, 2 * idle);
}

// No time passes, so no budget accrues. Credit is proportional to the saved fraction of the held
// memory, which counts as at least 1 GiB (kMinCreditBaseBytes), so a small program gets little.
TEST_F(BudgetedProgramTest, SmallProgramGetsLittleCredit) {
  start_with_clock();
  churn(0);
  const auto stitched = static_cast<double>(calls(DeviceCall::kMap) - calls(DeviceCall::kCreate));
  EXPECT_GT(stitched, 0);
  EXPECT_LE(stitched * 34, 5'000 + 40'000) << "us: the first balance, and a part of the credit";
}

TEST_F(BudgetedProgramTest, HeldMemoryIsBoundedWithoutElapsedTime) {
  start_with_clock();
  for (int i = 0; i < kSteps; ++i) train_step();
  EXPECT_LE(reserved_to_live_ratio(), 2.1);
}

}  // namespace
}  // namespace ashlar::paged
