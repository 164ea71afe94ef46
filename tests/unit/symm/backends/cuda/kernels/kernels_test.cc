// SPDX-License-Identifier: Apache-2.0
//
// The kernels of symmetric memory on plain memory, one after the other on one thread, so that a
// rank can be stopped between any two of them: what a call that timed out goes on with, and what
// nobody does twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "symm/backends/cuda/kernels/copy.h"
#include "symm/backends/cuda/kernels/meet.h"
#include "symm/backends/cuda/kernels/multimem.h"
#include "symm/backends/cuda/kernels/reduce.h"
#include "symm/backends/cuda/kernels/signal.h"
#include "symm/backends/cuda/plan.h"

namespace ashlar::symm {
namespace {

using kernels::End;

// Time passes with every look at it, and a wait is over at once.
class PlainMachine final : public kernels::HostMachine {
 public:
  void* see(uint64_t address, uint64_t /*bytes*/) override {
    return reinterpret_cast<void*>(address);
  }
  // What is behind multicast: memory of each rank, at the same place.
  uint32_t copy_count(uint64_t /*address*/) override {
    return static_cast<uint32_t>(copies.size());
  }
  void* see_copy(uint64_t address, uint64_t /*bytes*/, uint32_t copy) override {
    return copies[copy] + (address - multicast);
  }
  void rest(uint32_t /*turn*/) override {}
  uint64_t now_ns() const override { return ++now_; }

  std::vector<std::byte*> copies;
  uint64_t multicast = 0;

 private:
  mutable uint64_t now_ = 1;
};

constexpr int kChannels = 2;
constexpr int kRanks = 2;
constexpr size_t kWords = 64;
constexpr uint64_t kMulticast = uint64_t{1} << 40;  // no memory of anybody's

struct alignas(64) Pad {
  std::byte bytes[sizeof(PadLine) * kChannels * kRanks] = {};
};

// Two ranks, each with a pad, a buffer, and what its kernels keep.
class KernelsTest : public ::testing::Test {
 protected:
  struct Own {
    Pad pad;
    alignas(64) int32_t words[kWords] = {};
    alignas(64) int32_t out[kWords] = {};
    alignas(64) std::byte scratch[4 * kWords] = {};
    kernels::Board board{};
    kernels::Desk desk{};
    kernels::Record record{};
  };

  KernelsTest() {
    for (int rank = 0; rank < kRanks; ++rank) own_.push_back(std::make_unique<Own>());
    for (const auto& each : own_) {
      pads_.push_back(each->pad.bytes);
      buffers_.push_back(reinterpret_cast<std::byte*>(each->words));
    }
    machine_.copies = buffers_;
    machine_.multicast = kMulticast;
    kernels::running_machine() = &machine_;
  }
  ~KernelsTest() override { kernels::running_machine() = nullptr; }

  Own& own(int rank) { return *own_[static_cast<size_t>(rank)]; }
  Piece piece() const { return {.bases = buffers_, .buffer_bytes = 4 * kWords}; }

  Plan plan(int rank, const Collective& what) {
    const SignalPads pads = *SignalPads::make(rank, kChannels, pads_);
    const Team team{.pads = pads, .order = unused_, .channel = kChannels - 1};
    EXPECT_EQ(check(team, what).message(), "");
    return *plan_for(team, what);
  }
  AllReduce sum(int rank, bool to_out) {
    AllReduce request{.piece = piece(), .count = 4};
    request.what = {ElementType::kI32, ReduceOp::kSum};
    if (to_out) request.out = reinterpret_cast<std::byte*>(own(rank).out);
    return request;
  }

  // The step-th kernel of the plan. Waits give up after a few looks.
  void run(int rank, const Plan& plan, size_t step) {
    kernels::Common rank_info{};
    rank_info.board = reinterpret_cast<uint64_t>(&own(rank).board);
    rank_info.desk = reinterpret_cast<uint64_t>(&own(rank).desk);
    rank_info.record = is_in_stream ? 0 : reinterpret_cast<uint64_t>(&own(rank).record);
    rank_info.rank = static_cast<uint32_t>(rank);
    rank_info.world_size = kRanks;
    rank_info.timeout_ns = 4;
    machine_.began_ns = machine_.now_ns();
    const Step& wanted = plan.steps[step];
    if (const auto* meet = std::get_if<kernels::MeetArguments>(&wanted)) {
      kernels::MeetArguments arguments = *meet;
      arguments.own = rank_info;
      arguments.scratch = reinterpret_cast<uint64_t>(own(rank).scratch);
      on_threads(32, [&] { kernels::run_meet(arguments); });
    } else if (const auto* reduce = std::get_if<ReduceStep>(&wanted)) {
      kernels::ReduceArguments arguments = reduce->arguments;
      arguments.own = rank_info;
      on_threads(8, [&] { kernels::run_reduce<int32_t>(arguments); });
    } else if (const auto* copy = std::get_if<CopyStep>(&wanted)) {
      kernels::CopyArguments arguments = copy->arguments;
      arguments.own = rank_info;
      on_threads(8, [&] { kernels::run_copy(arguments); });
    } else if (const auto* multimem = std::get_if<MultimemStep>(&wanted)) {
      kernels::MultimemArguments arguments = multimem->arguments;
      arguments.own = rank_info;
      on_threads(8, [&] { kernels::run_multimem_sum<uint32_t>(arguments); });
    }
  }
  void run_from(int rank, const Plan& plan, size_t first, size_t end) {
    own(rank).record.ending = {};
    for (size_t step = first; step < end; ++step) run(rank, plan, step);
  }
  End ending(int rank) { return own(rank).record.ending.kind; }
  template <typename Body>
  void alone(uint32_t threads, const Body& body) {
    on_threads(threads, body);
  }

  bool is_in_stream = false;

 private:
  template <typename Body>
  void on_threads(uint32_t count, const Body& body) {
    machine_.thread_count = count;
    for (uint32_t thread = 0; thread < count; ++thread) {
      machine_.thread_index = thread;
      body();
    }
  }

  PlainMachine machine_;
  std::vector<std::unique_ptr<Own>> own_;
  std::vector<std::byte*> pads_;
  std::vector<std::byte*> buffers_;
  OrderGuard unused_;
};

// Rank 0 has reduced, and waits at the exit; rank 1 goes through it, since rank 0 has told it that
// it came, and writes into its memory. Rank 0 must not read that.
TEST_F(KernelsTest, WhatWasDoneBeforeATimeoutIsNotDoneAgain) {
  const ThresholdAllReduce zero{sum(0, true), SIZE_MAX};
  const ThresholdAllReduce one{sum(1, true), SIZE_MAX};
  const Plan first = plan(0, zero);
  const Plan other = plan(1, one);
  ASSERT_EQ(first.steps.size(), 3u);  // entry, work, exit
  own(0).words[0] = 10;
  own(1).words[0] = 1;

  run_from(0, first, 0, 3);
  EXPECT_EQ(ending(0), End::kTimeout);
  EXPECT_EQ(own(0).record.ending.missing[0], 0b10u);
  EXPECT_EQ(own(0).out[0], 0) << "nothing is done before the ranks have met";
  run_from(1, other, 0, 1);  // passes, and does not come to the exit yet
  run_from(0, first, 0, 3);
  EXPECT_EQ(ending(0), End::kTimeout);
  EXPECT_EQ(own(0).out[0], 11);
  run_from(1, other, 1, 3);
  EXPECT_EQ(own(1).out[0], 11);
  own(1).words[0] = 5000;

  run_from(0, first, 0, 3);
  EXPECT_EQ(ending(0), End::kNone);
  EXPECT_EQ(own(0).out[0], 11);
}

TEST_F(KernelsTest, AnotherCallIsRefusedUntilTheUnfinishedOneWasCalledAgain) {
  const Plan all = plan(0, ThresholdAllReduce{sum(0, true), SIZE_MAX});
  AllReduce fewer = sum(0, true);
  fewer.count = 3;
  const Plan another = plan(0, ThresholdAllReduce{fewer, SIZE_MAX});
  run_from(0, all, 0, 3);
  run_from(0, another, 0, 3);
  EXPECT_EQ(ending(0), End::kUnfinished);
  EXPECT_EQ(own(0).record.ending.called.bytes, 12u);
  EXPECT_EQ(own(0).record.ending.expected.bytes, 16u);
  run_from(1, plan(1, ThresholdAllReduce{sum(1, true), SIZE_MAX}), 0, 1);
  run_from(0, all, 0, 2);
  EXPECT_EQ(ending(0), End::kNone);
}

// The first bad end in streams stays on the board until it was told, and holds up all that follows.
TEST_F(KernelsTest, TheFirstBadEndInStreamsHoldsUpTheRestUntilItWasTold) {
  is_in_stream = true;
  const SignalPads pads = *SignalPads::make(0, kChannels, {own(0).pad.bytes, own(1).pad.bytes});
  const Plan barrier = plan_for(pads, Signal{Signal::Kind::kBarrier, 0, 0, 0});
  run_from(0, barrier, 0, 1);
  EXPECT_EQ(own(0).board.ending.state, 1u);
  EXPECT_EQ(own(0).board.ending.kind, End::kTimeout);
  // Rank 1 has come now, but nothing is done until somebody was told.
  run_from(1,
           plan_for(*SignalPads::make(1, kChannels, {own(0).pad.bytes, own(1).pad.bytes}),
                    Signal{Signal::Kind::kBarrier, 0, 0, 0}),
           0, 1);
  EXPECT_EQ(pads.line(1, 0, 1).barrier, 1u);
  run_from(0, barrier, 0, 1);
  EXPECT_EQ(pads.line(0, 0, 0).barrier, 0u);
  own(0).board.told = 1;
  run_from(0, barrier, 0, 1);
  EXPECT_EQ(pads.line(0, 0, 0).barrier, 1u);
  EXPECT_EQ(own(0).board.ending.state, 1u) << "no second bad end";
}

TEST_F(KernelsTest, AFailedGroupIsNoTimeoutAndLeavesNothingUnfinished) {
  const Plan all = plan(0, ThresholdAllReduce{sum(0, true), SIZE_MAX});
  own(0).board.has_failed = 1;
  run_from(0, all, 0, 3);
  EXPECT_EQ(ending(0), End::kFailed);
  EXPECT_EQ(own(0).desk.is_unfinished, 0u);
  EXPECT_EQ(own(0).desk.is_running, 0u);
  EXPECT_EQ(own(0).out[0], 0);
}

// The input that stood in for the result of a part is what it was.
TEST_F(KernelsTest, ATwoShotToElsewhereMeetsFourTimesAndPutsItsInputBack) {
  const ThresholdAllReduce zero{sum(0, true), 0};
  const ThresholdAllReduce one{sum(1, true), 0};
  const Plan first = plan(0, zero);
  const Plan other = plan(1, one);
  own(0).words[0] = 10;
  own(1).words[0] = 1;
  // Both have all four meetings; only rank 0's part, which is all there is, is reduced.
  bool is_done[kRanks] = {};
  for (int turn = 0; turn < 16; ++turn) {
    const int rank = turn % kRanks;
    if (is_done[rank]) continue;
    const Plan& own_plan = rank == 0 ? first : other;
    run_from(rank, own_plan, 0, own_plan.steps.size());
    is_done[rank] = ending(rank) == End::kNone;
  }
  EXPECT_TRUE(is_done[0] && is_done[1]);
  EXPECT_EQ(own(0).out[0], 11);
  EXPECT_EQ(own(1).out[0], 11);
  EXPECT_EQ(own(0).words[0], 10);
  EXPECT_EQ(own(1).words[0], 1);
}

// Ten words: two packs go through the switch, the rest is read from all ranks' memory.
TEST_F(KernelsTest, AMultimemSumToElsewhereIsLoadedAndStoredHereAlone) {
  auto* const multicast = reinterpret_cast<std::byte*>(kMulticast);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (size_t i = 0; i < kWords; ++i) own(rank).words[i] = static_cast<int32_t>(i) + 100 * rank;
  }
  AllReduce all = sum(0, true);
  all.count = 10;
  Reduce one{.piece = piece(), .count = 10, .what = all.what, .root = 0, .out = all.out};
  for (const Collective& what : {Collective(MultimemAllReduce{all, multicast}),
                                 Collective(MultimemReduce{one, multicast})}) {
    std::memset(own(0).out, 0, sizeof(own(0).out));
    const Plan first = plan(0, what);
    ASSERT_EQ(first.steps.size(), 4u);
    ASSERT_TRUE(std::holds_alternative<MultimemStep>(first.steps[1]));
    Collective other = what;
    if (auto* reduce = std::get_if<MultimemReduce>(&other)) reduce->request.out = nullptr;
    if (auto* reduce = std::get_if<MultimemAllReduce>(&other)) {
      reduce->request.out = reinterpret_cast<std::byte*>(own(1).out);
    }
    const Plan second = plan(1, other);
    EXPECT_EQ(second.steps.size(), std::holds_alternative<MultimemReduce>(what) ? 2u : 4u);
    run(1, second, 0);  // it has told, and does not wait for long
    run_from(0, first, 0, 3);
    for (size_t i = 0; i < kWords; ++i) {
      EXPECT_EQ(own(0).out[i], i < 10 ? 2 * static_cast<int32_t>(i) + 100 : 0);
      EXPECT_EQ(own(0).words[i], static_cast<int32_t>(i));
    }
    run_from(1, second, 0, second.steps.size());
    run_from(0, first, 3, 4);
    run_from(1, second, 0, second.steps.size());
    EXPECT_EQ(ending(0), End::kNone);
    EXPECT_EQ(ending(1), End::kNone);
  }
}

// Nothing of a call is begun, and nothing keeps it from being done.
TEST_F(KernelsTest, WordsAndBytesForAllAreStoredOutsideOfAnyCall) {
  const kernels::StoreArguments words{
      .at = reinterpret_cast<uint64_t>(&own(1).words[3]), .count = 5, .value = 9, .reserved = 0};
  alone(3, [&] { kernels::run_store(words); });
  for (size_t i = 0; i < kWords; ++i) EXPECT_EQ(own(1).words[i], i >= 3 && i < 8 ? 9 : 0);
  kernels::MultimemArguments bytes{};
  bytes.is_alone = 1;
  bytes.multicast = kMulticast + 64;
  bytes.from = reinterpret_cast<uint64_t>(own(0).out);
  bytes.bytes = 32;
  for (size_t i = 0; i < 8; ++i) own(0).out[i] = static_cast<int32_t>(i) + 1;
  alone(3, [&] { kernels::run_multimem_store(bytes); });
  for (int rank = 0; rank < kRanks; ++rank) {
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(own(rank).words[16 + i], static_cast<int32_t>(i) + 1);
    EXPECT_EQ(own(rank).words[24], 0);
  }
}

}  // namespace
}  // namespace ashlar::symm
