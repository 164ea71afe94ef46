// SPDX-License-Identifier: Apache-2.0
//
// Tests signals between ranks: slots and counters.
#include "symm/signals/signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/symm/signals/ranks.h"

namespace ashlar::symm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RankMemory;
using testing::RankPads;

TEST(Signals, FillTheSlotOfTheSourceAndAreTakenOnce) {
  const RankPads memory(3);
  const Failure failure;
  const SignalPads sender = memory.pads_of(2);
  const SignalPads receiver = memory.pads_of(0);
  ASSERT_TRUE(put_signal(sender.slots(), 0, 1, {failure}).ok());
  EXPECT_EQ(receiver.line(0, 1, 2).signal, 1u);
  EXPECT_FALSE(*try_wait_signal(receiver.slots(), 1, 1));
  EXPECT_FALSE(*try_wait_signal(receiver.slots(), 2, 0));
  EXPECT_TRUE(wait_signal(receiver.slots(), 2, 1, {failure}).ok());
  EXPECT_EQ(receiver.line(0, 1, 2).signal, 0u);
  EXPECT_FALSE(*try_wait_signal(receiver.slots(), 2, 1));
}

TEST(Signals, PutWaitsForThePreviousSignal) {
  const RankPads memory(2);
  const Failure failure;
  const SignalSlots sender = memory.pads_of(0).slots();
  EXPECT_TRUE(*try_put_signal(sender, 1, 0));
  EXPECT_FALSE(*try_put_signal(sender, 1, 0));
  const Status timeout_status = put_signal(sender, 1, 0, {failure, short_deadline()});
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(),
              AllOf(HasSubstr("rank 0 waited "), HasSubstr("to signal rank 1"),
                    HasSubstr("channel 0"), HasSubstr("the pad of rank 0")));
  EXPECT_TRUE(wait_signal(memory.pads_of(1).slots(), 0, 0, {failure, short_deadline()}).ok());
  EXPECT_TRUE(put_signal(sender, 1, 0, {failure, short_deadline()}).ok());
}

TEST(Signals, TimeoutNamesTheSourceAndShowsThePad) {
  const RankPads memory(4, 3);
  const Failure failure;
  const SignalSlots receiver = memory.pads_of(1).slots();
  ASSERT_TRUE(*try_put_signal(memory.pads_of(3).slots(), 1, 0));
  const Status timeout_status = wait_signal(receiver, 2, 1, {failure, short_deadline()});
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(),
              AllOf(HasSubstr("rank 1 waited "), HasSubstr("from rank 2 on channel 1"),
                    HasSubstr("channel 1: all zero"), HasSubstr("channel 0: full from 3:1")));
}

TEST(Signals, RejectInvalidRanksAndChannels) {
  const RankPads memory(2);
  const Failure failure;
  const SignalPads pads = memory.pads_of(0);
  for (const int rank : {-1, 2}) {
    EXPECT_EQ(put_signal(pads.slots(), rank, 0, {failure}).kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(wait_signal(pads.slots(), rank, 0, {failure}).kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(try_put_signal(pads.slots(), rank, 0).status().kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(try_wait_signal(pads.slots(), rank, 0).status().kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(add_signal(pads, rank, 0, 1).kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(wait_for_value(pads, rank, 0, 1, {failure}).kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(counter_value(pads, rank, 0).status().kind(), StatusKind::kInvalidArgument);
  }
  for (const int channel : {-1, 2}) {
    EXPECT_EQ(put_signal(pads.slots(), 1, channel, {failure}).kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(wait_signal(pads.slots(), 1, channel, {failure}).kind(),
              StatusKind::kInvalidArgument);
    EXPECT_EQ(try_put_signal(pads.slots(), 1, channel).status().kind(),
              StatusKind::kInvalidArgument);
    EXPECT_EQ(try_wait_signal(pads.slots(), 1, channel).status().kind(),
              StatusKind::kInvalidArgument);
    EXPECT_EQ(add_signal(pads, 1, channel, 1).kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(wait_for_value(pads, 1, channel, 1, {failure}).kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(counter_value(pads, 1, channel).status().kind(), StatusKind::kInvalidArgument);
  }
}

TEST(Signals, RejectUnreachablePads) {
  RankMemory memory(1, 128);
  const Failure failure;
  const SignalPads pads = *SignalPads::make(0, 1, {memory.memory_of(0), nullptr});
  EXPECT_EQ(put_signal(pads.slots(), 1, 0, {failure}).kind(), StatusKind::kUnsupported);
  EXPECT_EQ(add_signal(pads, 1, 0, 1).kind(), StatusKind::kUnsupported);
  EXPECT_EQ(wait_signal(pads.slots(), 1, 0, {failure, short_deadline()}).kind(),
            StatusKind::kTimeout);
}

TEST(Signals, ReturnTheFailureOfTheGroup) {
  const RankPads memory(2);
  Failure failure;
  failure.report(Status::peer_lost("rank 1 died"));
  const SignalPads pads = memory.pads_of(0);
  EXPECT_EQ(wait_signal(pads.slots(), 1, 0, {failure}).message(), "rank 1 died");
  EXPECT_EQ(wait_for_value(pads, 1, 0, 1, {failure}).message(), "rank 1 died");
  ASSERT_TRUE(*try_put_signal(pads.slots(), 1, 0));
  EXPECT_EQ(put_signal(pads.slots(), 1, 0, {failure}).message(), "rank 1 died");
}

TEST(Signals, CountersAccumulateAndWaitsDoNotChangeThem) {
  const RankPads memory(2);
  const Failure failure;
  const SignalPads sender = memory.pads_of(0);
  const SignalPads receiver = memory.pads_of(1);
  ASSERT_TRUE(add_signal(sender, 1, 1, 2).ok());
  ASSERT_TRUE(add_signal(sender, 1, 1, (uint64_t{1} << 32)).ok());
  EXPECT_TRUE(wait_for_value(receiver, 0, 1, 3, {failure, short_deadline()}).ok());
  EXPECT_EQ(*counter_value(receiver, 0, 1), (uint64_t{1} << 32) + 2);
  const Status timeout_status =
      wait_for_value(receiver, 0, 1, (uint64_t{1} << 32) + 3, {failure, short_deadline()});
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(),
              AllOf(HasSubstr("rank 1 waited"), HasSubstr("rank 0 to count to 4294967299"),
                    HasSubstr("channel 1"), HasSubstr("which is at 4294967298")));
}

// Passes the right to write around a ring: each rank waits for the previous rank's signal,
// increments a number that is not atomic, and signals the next rank.
void pass_around(const RankPads& memory, int world_size, int rank, uint64_t* number) {
  const Failure failure;
  const SignalSlots slots = memory.pads_of(rank).slots();
  const int rounds = 500;
  for (int round = 0; round < rounds; ++round) {
    if (round > 0 || rank > 0) {
      const int before = (rank + world_size - 1) % world_size;
      ASSERT_TRUE(wait_signal(slots, before, 1, {failure, long_deadline()}).ok());
    }
    ASSERT_EQ(*number, static_cast<uint64_t>(round * world_size + rank));
    *number += 1;
    const bool is_last = round == rounds - 1 && rank == world_size - 1;
    if (!is_last) {
      ASSERT_TRUE(put_signal(slots, (rank + 1) % world_size, 1, {failure, long_deadline()}).ok());
    }
  }
}

TEST(SignalsConcurrency, PublishEarlierWrites) {
  for (const int world_size : {1, 2, 3, 8}) {
    const RankPads memory(world_size);
    uint64_t number = 0;
    testing::run_as_threads(world_size,
                            [&](int rank) { pass_around(memory, world_size, rank, &number); });
    EXPECT_EQ(number, static_cast<uint64_t>(500 * world_size));
  }
}

TEST(Signals, PublishEarlierWritesAcrossProcesses) {
  for (const int world_size : {2, 3, 8}) {
    const RankPads memory(world_size);
    RankMemory shared(1, sizeof(uint64_t));
    auto* number = reinterpret_cast<uint64_t*>(shared.memory_of(0));
    testing::run_as_processes(world_size,
                              [&](int rank) { pass_around(memory, world_size, rank, number); });
    EXPECT_EQ(*number, static_cast<uint64_t>(500 * world_size));
  }
}

TEST(SignalsConcurrency, UserPadsAreIndependentOfTheGroupPad) {
  const RankPads memory(2, 1);
  RankMemory user(2, 64);
  testing::run_as_threads(2, [&](int rank) {
    const Failure failure;
    const SignalPads pads = memory.pads_of(rank);
    const SignalSlots slots = *pads.user_slots(64, user.bases());
    const int peer = 1 - rank;
    for (int round = 0; round < 1000; ++round) {
      const int channel = round % slots.channel_count();
      ASSERT_TRUE(put_signal(slots, peer, channel, {failure, long_deadline()}).ok());
      ASSERT_TRUE(wait_signal(slots, peer, channel, {failure, long_deadline()}).ok());
      ASSERT_FALSE(*try_wait_signal(pads.slots(), peer, 0));
    }
  });
  EXPECT_TRUE(user.guards_are_intact());
}

TEST(SignalsConcurrency, CountersAcceptConcurrentAdditions) {
  const RankPads memory(4);
  std::vector<int> written(4, 0);
  testing::run_as_threads(4, [&](int rank) {
    const Failure failure;
    const SignalPads pads = memory.pads_of(rank);
    if (rank > 0) {
      written[static_cast<size_t>(rank)] = rank;
      for (int i = 0; i < 1000; ++i) ASSERT_TRUE(add_signal(pads, 0, 0, 1).ok());
      return;
    }
    for (int source = 1; source < 4; ++source) {
      ASSERT_TRUE(wait_for_value(pads, source, 0, 1000, {failure, long_deadline()}).ok());
      EXPECT_EQ(written[static_cast<size_t>(source)], source);
    }
  });
}

}  // namespace
}  // namespace ashlar::symm
