// SPDX-License-Identifier: Apache-2.0
//
// Tests barriers between threads and between processes.
#include "symm/signals/barrier.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/symm/signals/ranks.h"

namespace ashlar::symm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RankMemory;
using testing::RankPads;

constexpr std::array kKinds{BarrierKind::kAllToAll, BarrierKind::kDissemination};

// Between two barriers, every rank reads what all ranks wrote before the first barrier, and no rank
// writes.
void repeat_barriers(const RankPads& memory, BarrierKind kind, int rank, std::span<int> written) {
  const Failure failure;
  const SignalPads pads = memory.pads_of(rank);
  for (int round = 1; round <= 200; ++round) {
    written[static_cast<size_t>(rank)] = round;
    ASSERT_TRUE(barrier(pads, round % 2, kind, {failure, long_deadline()}).ok());
    for (const int found : written) ASSERT_EQ(found, round);
    ASSERT_TRUE(barrier(pads, 1, kind, {failure, long_deadline()}).ok());
  }
}

TEST(BarrierConcurrency, PublishesEarlierWritesToAllRanks) {
  for (const BarrierKind kind : kKinds) {
    for (const int world_size : {1, 2, 3, 5, 8}) {
      const RankPads memory(world_size);
      std::vector<int> written(static_cast<size_t>(world_size));
      testing::run_as_threads(world_size,
                              [&](int rank) { repeat_barriers(memory, kind, rank, written); });
    }
  }
}

TEST(Barrier, PublishesEarlierWritesToAllProcesses) {
  for (const BarrierKind kind : kKinds) {
    for (const int world_size : {1, 2, 3, 4, 5, 8}) {
      const RankPads memory(world_size);
      RankMemory shared(1, sizeof(int) * static_cast<size_t>(world_size));
      const std::span<int> written(reinterpret_cast<int*>(shared.memory_of(0)),
                                   static_cast<size_t>(world_size));
      testing::run_as_processes(world_size,
                                [&](int rank) { repeat_barriers(memory, kind, rank, written); });
    }
  }
}

TEST(BarrierConcurrency, WorksForSeventyTwoRanksOnEveryChannel) {
  const RankPads memory(72, 32);
  testing::run_as_threads(72, [&](int rank) {
    const Failure failure;
    const SignalPads pads = memory.pads_of(rank);
    for (int channel = 0; channel < 32; ++channel) {
      ASSERT_TRUE(barrier(pads, channel, {failure, long_deadline()}).ok());
    }
  });
}

TEST(Barrier, WithOneRankOnlyChecksArguments) {
  const RankPads memory(1);
  const Failure failure;
  EXPECT_TRUE(barrier(memory.pads_of(0), 0, {failure, short_deadline()}).ok());
  EXPECT_EQ(barrier(memory.pads_of(0), 2, {failure}).kind(), StatusKind::kInvalidArgument);
}

TEST(Barrier, RejectsInvalidChannelsAndUnreachablePads) {
  const RankPads memory(2);
  const Failure failure;
  const Status wrong = barrier(memory.pads_of(0), 2, {failure});
  EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(wrong.message(), HasSubstr("channels 0 to 1"));
  EXPECT_EQ(barrier(memory.pads_of(0), -1, {failure}).kind(), StatusKind::kInvalidArgument);

  RankMemory own(1, 128);
  const SignalPads pads = *SignalPads::make(1, 1, {nullptr, own.memory_of(0)});
  EXPECT_EQ(barrier(pads, 0, {failure}).kind(), StatusKind::kUnsupported);
}

TEST(Barrier, TimeoutNamesExactlyTheMissingRanks) {
  for (const BarrierKind kind : kKinds) {
    const RankPads memory(5);
    const Failure failure;
    for (const int rank : {0, 2, 3}) {
      ASSERT_EQ(barrier(memory.pads_of(rank), 1, kind, {failure, short_deadline()}).kind(),
                StatusKind::kTimeout);
    }
    const Status timeout_status = barrier(memory.pads_of(0), 1, kind, {failure, short_deadline()});
    EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
    EXPECT_THAT(timeout_status.message(),
                AllOf(HasSubstr("rank 0 waited "),
                      HasSubstr("in barrier 1 of channel 1 for ranks 1 and 4;"),
                      HasSubstr("the pad of rank 0")));
  }
}

TEST(BarrierConcurrency, CanBeCompletedAfterATimeout) {
  for (const BarrierKind kind : kKinds) {
    const RankPads memory(3);
    const Failure failure;
    // Two ranks enter early, one of them twice; neither rank passes.
    for (const int rank : {0, 1, 0}) {
      ASSERT_EQ(barrier(memory.pads_of(rank), 0, kind, {failure, short_deadline()}).kind(),
                StatusKind::kTimeout);
    }
    std::vector<int> written(3);
    testing::run_as_threads(3, [&](int rank) {
      ASSERT_TRUE(barrier(memory.pads_of(rank), 0, kind, {failure, long_deadline()}).ok());
      repeat_barriers(memory, kind, rank, written);
    });
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(memory.pads_of(rank).line(rank, 0, rank).barrier, 101u);
      EXPECT_EQ(memory.pads_of(rank).line(rank, 1, rank).barrier, 300u);
    }
  }
}

TEST(Barrier, ReturnsTheFailureOfTheGroup) {
  const RankPads memory(2);
  Failure failure;
  failure.report(Status::peer_lost("rank 1 died"));
  EXPECT_EQ(barrier(memory.pads_of(0), 0, {failure}).message(), "rank 1 died");
}

TEST(Barrier, DoesNotAffectSignalsAndCounters) {
  const RankPads memory(2);
  const Failure failure;
  ASSERT_TRUE(*try_put_signal(memory.pads_of(1).slots(), 0, 0));
  ASSERT_TRUE(add_signal(memory.pads_of(1), 0, 0, 5).ok());
  EXPECT_THAT(barrier(memory.pads_of(0), 0, {failure, short_deadline()}).message(),
              Not(HasSubstr("barriers 1")));
  EXPECT_TRUE(*try_wait_signal(memory.pads_of(0).slots(), 1, 0));
  EXPECT_EQ(*counter_value(memory.pads_of(0), 1, 0), 5u);
}

TEST(Barrier, MakesProgressWithEightProcessesOnFewCores) {
  const RankPads memory(8);
  testing::run_as_processes(8, [&](int rank) {
    const Failure failure;
    const SignalPads pads = memory.pads_of(rank);
    for (int round = 0; round < 5000; ++round) {
      ASSERT_TRUE(barrier(pads, 0, {failure, long_deadline()}).ok());
    }
  });
}

}  // namespace
}  // namespace ashlar::symm
