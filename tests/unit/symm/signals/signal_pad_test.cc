// SPDX-License-Identifier: Apache-2.0
//
// Tests signal pads: sizes, addresses, argument checks and descriptions.
#include "symm/signals/signal_pad.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "symm/core/rank_info.h"
#include "unit/symm/signals/ranks.h"

namespace ashlar::symm {
namespace {

using ::testing::HasSubstr;
using testing::RankMemory;
using testing::RankPads;

TEST(SignalPad, HasALinePerChannelAndSource) {
  EXPECT_EQ(*pad_bytes(1, 1), 64u);
  EXPECT_EQ(*pad_bytes(72, 32), 64u * 72 * 32);
  EXPECT_THAT(pad_bytes(0, 1).status().message(), HasSubstr("1 to 65536 ranks"));
  EXPECT_THAT(pad_bytes(2, -1).status().message(), HasSubstr("1 to 1048576 channels"));
  EXPECT_THAT(pad_bytes(2, 2'000'000).status().message(), HasSubstr("1 to 1048576 channels"));
}

TEST(SignalPad, SourcesAndChannelsDoNotShareLines) {
  const RankPads memory(72, 32);
  const SignalPads pads = memory.pads_of(71);
  std::set<const PadLine*> lines;
  for (int channel = 0; channel < 32; ++channel) {
    for (int source = 0; source < 72; ++source) lines.insert(&pads.line(5, channel, source));
  }
  EXPECT_EQ(lines.size(), 72u * 32);
  EXPECT_EQ(*lines.rbegin() + 1, &pads.line(5, 0, 0) + 72 * 32);
}

TEST(SignalPad, UserPadHasPyTorchLayout) {
  const RankPads memory(3);
  RankMemory user(3, 60);
  const SignalSlots slots = *memory.pads_of(0).user_slots(60, user.bases());
  EXPECT_EQ(slots.channel_count(), 5);
  for (int channel = 0; channel < 5; ++channel) {
    for (int source = 0; source < 3; ++source) {
      EXPECT_EQ(slots.slot(2, channel, source).value,
                reinterpret_cast<uint32_t*>(user.memory_of(2)) + 3 * channel + source);
    }
  }
}

TEST(SignalPad, DefaultSizeHasPyTorchChannelCount) {
  for (const auto& [world_size, channel_count] : {std::pair(2, 1152), {8, 288}, {72, 32}}) {
    const RankPads memory(world_size);
    RankMemory user(world_size, 9216);
    EXPECT_EQ(memory.pads_of(0).user_slots(9216, user.bases())->channel_count(), channel_count);
  }
}

TEST(SignalPad, RejectsPadsTooSmallForOneChannel) {
  const RankPads memory(3);
  RankMemory user(3, 64);
  EXPECT_EQ(memory.pads_of(0).user_slots(11, user.bases()).status().message(),
            "a pad of 11 bytes is too small for one channel: 3 ranks need 12 bytes");
}

TEST(SignalPad, RejectsInvalidBases) {
  const RankPads memory(2);
  RankMemory user(2, 256);
  const std::vector<std::byte*> odd{user.memory_of(0), user.memory_of(1) + 1};
  EXPECT_THAT(SignalPads::make(0, 1, odd).status().message(),
              HasSubstr("rank 1 is not aligned to 64"));
  EXPECT_THAT(SignalPads::make(2, 1, user.bases()).status().message(),
              HasSubstr("expected 0 to 1"));
  EXPECT_THAT(SignalPads::make(-1, 1, user.bases()).status().message(),
              HasSubstr("expected 0 to 1"));
  EXPECT_THAT(SignalPads::make(0, 1, {}).status().message(), HasSubstr("0 ranks"));
  EXPECT_THAT(SignalPads::make(0, 1, {nullptr, user.memory_of(1)}).status().message(),
              HasSubstr("rank 0 has no signal pad"));
  EXPECT_THAT(memory.pads_of(0).user_slots(64, odd).status().message(), HasSubstr("aligned to 4"));
  EXPECT_THAT(memory.pads_of(0).user_slots(64, {user.memory_of(0)}).status().message(),
              HasSubstr("1 user pads in a group of 2"));
}

TEST(SignalPad, ErrorsNameTheValidChannelsAndRanks) {
  const SignalSlots slots = RankPads(4, 3).pads_of(1).slots();
  for (const int channel : {-1, 3}) {
    const Status wrong = slots.check_channel(channel);
    EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(wrong.message(), HasSubstr("channels 0 to 2"));
  }
  for (const int rank : {-1, 4}) {
    const Status wrong = slots.check_rank(rank);
    EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(wrong.message(), HasSubstr("expected 0 to 3"));
  }
  EXPECT_TRUE(slots.check_channel(2).ok());
  EXPECT_TRUE(slots.check_rank(3).ok());
}

TEST(SignalPad, ErrorsNameTheUnreachableRank) {
  RankMemory memory(1, 256);
  const SignalPads pads = *SignalPads::make(0, 1, {memory.memory_of(0), nullptr});
  EXPECT_TRUE(pads.slots().check_reachable(0).ok());
  EXPECT_EQ(pads.slots().check_reachable(1).kind(), StatusKind::kUnsupported);
}

TEST(SignalPad, DescriptionStartsWithTheGivenChannel) {
  RankPads memory(3, 4);
  const SignalPads pads = memory.pads_of(1);
  pads.line(1, 0, 2).signal = 1;
  pads.line(1, 2, 0).counter = 7;
  pads.line(1, 2, 1).barrier = 3;
  EXPECT_EQ(describe_pad(pads, 3),
            "the pad of rank 1 (source:value):\n  channel 3: all zero\n  channel 0: full from "
            "2:1\n  channel 2: counters 0:7, barriers 1:3");
  EXPECT_EQ(describe_slots(pads.slots(), 0),
            "the pad of rank 1 (source:value):\n  channel 0: full from 2:1");
}

TEST(SignalPad, DescriptionHasLimitedLength) {
  RankPads memory(72, 32);
  const SignalPads pads = memory.pads_of(0);
  for (int channel = 0; channel < 32; ++channel) {
    for (int source = 0; source < 72; ++source) pads.line(0, channel, source).signal = 1;
  }
  const std::string words = describe_pad(pads, 31);
  EXPECT_THAT(words, HasSubstr("and 56 more"));
  EXPECT_THAT(words, HasSubstr("\n  ..."));
  EXPECT_LT(words.size(), 4000u);
}

TEST(SignalPad, NamesRanksInAList) {
  EXPECT_EQ(name_ranks(std::vector{3}), "rank 3");
  EXPECT_EQ(name_ranks(std::vector{1, 2}), "ranks 1 and 2");
  EXPECT_EQ(name_ranks(std::vector{1, 2, 5}), "ranks 1, 2 and 5");
}

TEST(SignalPad, FormatsTimesInSeconds) {
  EXPECT_EQ(seconds_text(std::chrono::milliseconds(1234)), "1.234 s");
  EXPECT_EQ(seconds_text(std::chrono::microseconds(7900)), "0.007 s");
}

}  // namespace
}  // namespace ashlar::symm
