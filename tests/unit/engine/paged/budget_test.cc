// SPDX-License-Identifier: Apache-2.0
//
// What saving memory may cost, and what a program holds that spends all of it.
#include "engine/paged/budget.h"

#include "base/random.h"
#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

constexpr int64_t kMs = 1'000'000;            // ns
constexpr int64_t kVisitsInMs = 200'000;      // at 5 ns each
constexpr int64_t kGrownUpNs = 20'000 * kMs;  // 3 s of it young
constexpr double kLittle = 0;                 // of what is held: nothing may be owed for it
using enum Budget::Need;

// One that is no longer young, with nothing left for looking.
Budget grown_up() {
  Budget budget;
  (void)budget.is_left(kUsual, kLittle, 0);
  (void)budget.is_left(kUsual, kLittle, kGrownUpNs);
  budget.spend_visits(100 * kVisitsInMs);
  return budget;
}

// --- looking ------------------------------------------------------------------------------------

int64_t visits_between(Budget& budget, Budget::Need need, int64_t begin_ns, int64_t end_ns) {
  int64_t visits = 0;
  for (int64_t now_ns = begin_ns + kMs; now_ns <= end_ns; now_ns += kMs) {
    for (; budget.is_left(need, kLittle, now_ns); visits += 1000) budget.spend_visits(1000);
  }
  return visits;
}

TEST(BudgetTest, LookingMayTakeThreeQuartersOfAHundredthOfTheTime) {
  Budget budget = grown_up();
  const auto visits =
      static_cast<double>(visits_between(budget, kUsual, kGrownUpNs, kGrownUpNs + 10'000 * kMs));
  EXPECT_NEAR(visits, 10'000 * 0.0075 * kVisitsInMs, 2000);
}

TEST(BudgetTest, WhereSavingIsUrgentItMayTakeTwiceAsMuch) {
  Budget budget = grown_up();
  const auto visits =
      static_cast<double>(visits_between(budget, kUrgent, kGrownUpNs, kGrownUpNs + 10'000 * kMs));
  EXPECT_NEAR(visits, 10'000 * 0.015 * kVisitsInMs, 2000);
  EXPECT_FALSE(budget.is_left(kUsual, kLittle, kGrownUpNs + 10'000 * kMs)) << "spent for all";
}

TEST(BudgetTest, InTheFirstSecondsItMayTakeTwiceAsMuch) {
  Budget budget;
  (void)budget.is_left(kUsual, kLittle, 0);
  const auto visits = static_cast<double>(visits_between(budget, kUsual, 0, 3000 * kMs));
  EXPECT_NEAR(visits, (5 + 3000 * 0.015) * kVisitsInMs, 2000);
}

TEST(BudgetTest, WhatIsLeftOverIsKeptUpToATenthOfASecond) {
  Budget budget;
  const int64_t hour = 3'600'000 * kMs;
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, 0));
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, hour));
  budget.spend_visits(96 * kVisitsInMs);
  EXPECT_FALSE(budget.is_left(kUsual, kLittle, hour)) << "not all of it at once";
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, hour + 200 * kMs));
  budget.spend_visits(8 * kVisitsInMs);
  EXPECT_FALSE(budget.is_left(kUsual, kLittle, hour + 400 * kMs));
}

TEST(BudgetTest, WhatIsOwedIsForgottenInSeconds) {
  Budget budget = grown_up();
  for (int i = 0; i < 1000; ++i) budget.spend_visits(800 * kVisitsInMs);
  EXPECT_FALSE(budget.is_left(kUsual, kLittle, kGrownUpNs + 4200 * kMs));
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, kGrownUpNs + 4400 * kMs));
}

// As a loop would that does nothing but allocate, after it has paused for long.
TEST(BudgetTest, NoMoreThanAPartOfTheTimeIsSpentOnLookingAtOnce) {
  Budget budget = grown_up();
  const int64_t begin_ns = kGrownUpNs + 60'000 * kMs;
  (void)budget.is_left(kUsual, kLittle, begin_ns);
  const auto visits =
      static_cast<double>(visits_between(budget, kUsual, begin_ns, begin_ns + 20 * kMs));
  EXPECT_NEAR(visits, (1.6 + 0.02 * 19) * kVisitsInMs, 2000);
}

// Or a moment without time to look would cost a large block's memory, for good.
TEST(BudgetTest, WhatSavesMuchMayBeLookedForAtOnce) {
  Budget budget = grown_up();
  const int64_t now_ns = kGrownUpNs + 60'000 * kMs;
  (void)budget.is_left(kUsual, kLittle, now_ns);
  budget.spend_visits(6 * kVisitsInMs);
  EXPECT_FALSE(budget.is_left(kUrgent, kLittle, now_ns));
  EXPECT_FALSE(budget.is_left(kUrgent, 1.0 / 64, now_ns)) << "any growth takes that";
  EXPECT_TRUE(budget.is_left(kUrgent, 1.0 / 40, now_ns));
  EXPECT_TRUE(budget.is_left(kUsual, 1.0 / 40, now_ns));
  budget.spend_visits(150 * kVisitsInMs);
  EXPECT_FALSE(budget.is_left(kUrgent, 1.0 / 40, now_ns)) << "it counts all the same";
}

TEST(BudgetTest, WhatSavesMuchMayBeLookedForNow) {
  Budget budget = grown_up();
  budget.spend_visits(16 * kVisitsInMs);
  EXPECT_FALSE(budget.is_left(kUsual, 0.1, kGrownUpNs + 200 * kMs));
  EXPECT_TRUE(budget.is_left(kUsual, 0.2, kGrownUpNs + 200 * kMs));
}

TEST(BudgetTest, LessThanHalfOfWhatThereWasIsScarce) {
  Budget budget;
  EXPECT_FALSE(budget.is_scarce());
  (void)budget.is_left(kUsual, kLittle, 0);
  (void)budget.is_left(kUsual, kLittle, kGrownUpNs);
  EXPECT_FALSE(budget.is_scarce());
  budget.spend_visits(48 * kVisitsInMs);
  EXPECT_FALSE(budget.is_scarce());
  budget.spend_visits(8 * kVisitsInMs);
  EXPECT_TRUE(budget.is_scarce());
}

// --- driver time --------------------------------------------------------------------------------

TEST(BudgetTest, TheDriverMayTakeAHundredthOfTheTimeAndSomethingAtFirst) {
  Budget budget;
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, 0));
  budget.spend_us(4'000);
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, 0));
  budget.spend_us(2'000);
  EXPECT_FALSE(budget.is_left(kUsual, kLittle, 0));
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, 51 * kMs)) << "twice as much while it is young";
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, kGrownUpNs));
  budget.spend_us(5'000 - 6'000 + 60'000 + 170'000 + 2'000);  // all of it, and 2 ms
  EXPECT_FALSE(budget.is_left(kUsual, kLittle, kGrownUpNs + 150 * kMs));
  EXPECT_TRUE(budget.is_left(kUrgent, kLittle, kGrownUpNs + 150 * kMs));
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, kGrownUpNs + 210 * kMs));
}

TEST(BudgetTest, WhatSavesMuchMayBePaidForLater) {
  Budget budget;
  EXPECT_TRUE(budget.is_left(kUsual, kLittle, 0));
  budget.spend_us(5'000 + 90'000);
  EXPECT_FALSE(budget.is_left(kUsual, kLittle, 210 * kMs));
  EXPECT_TRUE(budget.is_left(kUsual, 0.1, 210 * kMs));
  budget.spend_us(40'000);
  EXPECT_FALSE(budget.is_left(kUsual, 0.1, 420 * kMs));
  EXPECT_TRUE(budget.is_left(kUsual, 0.2, 420 * kMs));
}

// --- programs whose sizes never come again ------------------------------------------------------

class SpendingTest : public PagedFixture {
 protected:
  void start_by_clock() {
    start({}, 64 * kGiB);
    engine_ = std::make_unique<PagedEngine>(device(), AllocatorOptions{}, &clock_);
  }
  Block* allocate_within(size_t bytes, int64_t step_ns) {
    clock_.advance_ns(step_ns / 240);
    return allocate(bytes);
  }
  // A training step: what one layer makes is kept until the way back, where each is freed beside a
  // few blocks that live for a moment. No two steps have the same sizes.
  void train_a_step(int64_t step_ns = 0) {
    const size_t length = 100 + random_.below(1400);
    std::vector<Block*> kept;
    for (int layer = 0; layer < 6; ++layer) {
      for (const size_t part : {1, 1, 3, 1, 1, 1, 1, 4, 4, 1}) {
        Block* passing = allocate_within(length * 4096 * part + 512 * part, step_ns);
        kept.push_back(allocate_within(length * 4096 * part, step_ns));
        free(passing);
      }
    }
    while (!kept.empty()) {
      Block* passing = allocate_within(kept.back()->bytes, step_ns);
      free(kept.back());
      kept.pop_back();
      Block* another = allocate_within(length * 16384, step_ns);
      free(passing);
      free(another);
    }
  }
  // A few hundred MiB, in sizes that hardly come again.
  void churn(int64_t step_ns) {
    std::vector<Block*> live(100, nullptr);
    for (int i = 0; i < 20'000; ++i) {
      Block*& block = live[random_.below(live.size())];
      if (block != nullptr) free(block);
      clock_.advance_ns(step_ns);
      block = allocate(kMiB + random_.below(15 * kMiB));
    }
  }
  double held_by_live() const {
    const AllocatorStats found = stats();
    return static_cast<double>(found.reserved_bytes.all.peak) /
           static_cast<double>(found.allocated_bytes.all.peak);
  }

#if defined(ASHLAR_INVARIANTS) || defined(__SANITIZE_THREAD__)
  static constexpr int kSteps = 20;
#else
  static constexpr int kSteps = 1500;  // more than what looking may cost at first
#endif
  ManualClock clock_;
  Random random_{1};
};

TEST_F(SpendingTest, WhereStepsTakeTheirTimeNearlyNothingIsHeldBeyondWhatIsLive) {
  start_by_clock();
  for (int i = 0; i < kSteps; ++i) train_a_step(30 * kMs);
  EXPECT_LE(held_by_live(), 1.12);
}

// Extents that were mapped once more, in a second, where nothing but the driver takes time.
TEST_F(SpendingTest, ADriverThatTakesLongerIsAskedLess) {
  const auto mapped_again = [this](std::chrono::microseconds delay) {
    start({}, 64 * kGiB);
    engine_ = std::make_unique<PagedEngine>(device(), AllocatorOptions{}, &machine_->clock());
    machine_->inject({.call = DeviceCall::kSetAccess,
                      .count = sim::FaultRule::kForever,
                      .action = sim::FaultAction::kDelay,
                      .delay = delay});
    random_ = Random(1);
    const int64_t begin_ns = machine_->clock().now_ns();
    for (int i = 0; i < 20; ++i) train_a_step();
    const auto passed_ns = static_cast<double>(machine_->clock().now_ns() - begin_ns);
    return static_cast<double>(calls(DeviceCall::kMap) - calls(DeviceCall::kCreate)) / passed_ns;
  };
  const double quick = mapped_again(std::chrono::microseconds(0));
  const double slow = mapped_again(std::chrono::milliseconds(3));
  EXPECT_GT(slow, 0);
  EXPECT_LT(slow, quick / 2);
}

// Then nobody waits for the host.
TEST_F(SpendingTest, WhileTheStreamHasWorkToDoTheDriverMayTakeMore) {
  const auto mapped_again = [this](bool is_busy) {
    start_by_clock();
    if (is_busy) keep_busy(kDefaultStream);
    random_ = Random(1);
    churn(20 * kMs / 1000);
    if (is_busy) finish(kDefaultStream);
    return calls(DeviceCall::kMap) - calls(DeviceCall::kCreate);
  };
  const auto idle = mapped_again(false);
  const auto busy = mapped_again(true);
  EXPECT_GT(idle, 0);
  EXPECT_GT(busy, 2 * idle);
}

// No time passes: what it may owe is for its part of a GiB.
TEST_F(SpendingTest, AProgramThatHoldsLittleOwesLittle) {
  start_by_clock();
  churn(0);
  const auto mapped_again =
      static_cast<double>(calls(DeviceCall::kMap) - calls(DeviceCall::kCreate));
  EXPECT_GT(mapped_again, 0);
  EXPECT_LE(mapped_again * 34, 5'000 + 40'000) << "us: what it begins with, and a part of a second";
}

TEST_F(SpendingTest, WhereNoTimeIsSpentElsewhereWhatIsHeldHasABound) {
  start_by_clock();
  for (int i = 0; i < kSteps; ++i) train_a_step();
  EXPECT_LE(held_by_live(), 2.1);
}

}  // namespace
}  // namespace ashlar::paged
