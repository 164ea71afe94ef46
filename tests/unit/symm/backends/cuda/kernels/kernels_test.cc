// SPDX-License-Identifier: Apache-2.0
//
// Runs the kernels on host memory, one after the other on one thread, so that a rank can be stopped
// between any two kernels. Checks how timed-out calls resume, and that no work is repeated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "symm/backends/cuda/kernel_plan.h"
#include "symm/backends/cuda/kernels/barrier.h"
#include "symm/backends/cuda/kernels/copy.h"
#include "symm/backends/cuda/kernels/multimem.h"
#include "symm/backends/cuda/kernels/reduce.h"
#include "symm/backends/cuda/kernels/signal.h"

namespace ashlar::symm {
namespace {

using kernels::ResultKind;

// An executor on host memory. Its time advances with every query, and its waits do not sleep.
class TestExecutor final : public kernels::HostExecutor {
 public:
  void* translate(uint64_t address, uint64_t /*bytes*/) override {
    return reinterpret_cast<void*>(address);
  }
  // A multicast address refers to the same offset in every rank's memory.
  uint32_t copy_count(uint64_t /*address*/) override {
    return static_cast<uint32_t>(copies.size());
  }
  void* translate_copy(uint64_t address, uint64_t /*bytes*/, uint32_t copy) override {
    return copies[copy] + (address - multicast);
  }
  void back_off(uint32_t /*turn*/) override {}
  uint64_t now_ns() const override { return ++now_; }

  std::vector<std::byte*> copies;
  uint64_t multicast = 0;

 private:
  mutable uint64_t now_ = 1;
};

constexpr int kChannels = 2;
constexpr int kRanks = 2;
constexpr size_t kWords = 64;
constexpr uint64_t kMulticast = uint64_t{1} << 40;  // not a valid host address

struct alignas(64) Pad {
  std::byte bytes[sizeof(PadLine) * kChannels * kRanks] = {};
};

// Two ranks, each with a pad, a buffer, and the state of its kernels.
class KernelsTest : public ::testing::Test {
 protected:
  struct RankState {
    Pad pad;
    alignas(64) int32_t words[kWords] = {};
    alignas(64) int32_t out[kWords] = {};
    alignas(64) std::byte scratch[4 * kWords] = {};
    kernels::StatusBoard board{};
    kernels::DeviceState state{};
    kernels::CallRecord record{};
  };

  KernelsTest() {
    for (int rank = 0; rank < kRanks; ++rank) own_.push_back(std::make_unique<RankState>());
    for (const auto& each : own_) {
      pads_.push_back(each->pad.bytes);
      buffers_.push_back(reinterpret_cast<std::byte*>(each->words));
    }
    executor_.copies = buffers_;
    executor_.multicast = kMulticast;
    kernels::current_executor() = &executor_;
  }
  ~KernelsTest() override { kernels::current_executor() = nullptr; }

  RankState& own(int rank) { return *own_[static_cast<size_t>(rank)]; }
  SymmetricRange range() const { return {.bases = buffers_, .buffer_bytes = 4 * kWords}; }

  KernelPlan plan(int rank, const Collective& what) {
    const SignalPads pads = *SignalPads::make(rank, kChannels, pads_);
    const CollectiveContext context{
        .pads = pads, .runner = unused_runner_, .channel = kChannels - 1};
    EXPECT_EQ(check(context, what).message(), "");
    return *plan_for(context, what);
  }
  AllReduce sum(int rank, bool to_out) {
    AllReduce request{.range = range(), .count = 4};
    request.reduction = {ElementType::kI32, ReduceOp::kSum};
    if (to_out) request.out = reinterpret_cast<std::byte*>(own(rank).out);
    return request;
  }

  // Runs one kernel of the plan. Waits time out after a few polls.
  void run(int rank, const KernelPlan& plan, size_t step) {
    kernels::CommonArguments common{};
    common.board = reinterpret_cast<uint64_t>(&own(rank).board);
    common.state = reinterpret_cast<uint64_t>(&own(rank).state);
    common.record = is_in_stream ? 0 : reinterpret_cast<uint64_t>(&own(rank).record);
    common.rank = static_cast<uint32_t>(rank);
    common.world_size = kRanks;
    common.timeout_ns = 4;
    executor_.began_ns = executor_.now_ns();
    const Step& wanted = plan.steps[step];
    if (const auto* barrier = std::get_if<kernels::BarrierArguments>(&wanted)) {
      kernels::BarrierArguments arguments = *barrier;
      arguments.common = common;
      arguments.scratch = reinterpret_cast<uint64_t>(own(rank).scratch);
      on_threads(32, [&] { kernels::run_barrier(arguments); });
    } else if (const auto* reduce = std::get_if<ReduceStep>(&wanted)) {
      kernels::ReduceArguments arguments = reduce->arguments;
      arguments.common = common;
      on_threads(8, [&] { kernels::run_reduce<int32_t>(arguments); });
    } else if (const auto* copy = std::get_if<CopyStep>(&wanted)) {
      kernels::CopyArguments arguments = copy->arguments;
      arguments.common = common;
      on_threads(8, [&] { kernels::run_copy(arguments); });
    } else if (const auto* multimem = std::get_if<MultimemStep>(&wanted)) {
      kernels::MultimemArguments arguments = multimem->arguments;
      arguments.common = common;
      on_threads(8, [&] { kernels::run_multimem_sum<uint32_t>(arguments); });
    }
  }
  void run_from(int rank, const KernelPlan& plan, size_t first, size_t end) {
    own(rank).record.result = {};
    for (size_t step = first; step < end; ++step) run(rank, plan, step);
  }
  ResultKind result_of(int rank) { return own(rank).record.result.kind; }
  template <typename Body>
  void alone(uint32_t threads, const Body& body) {
    on_threads(threads, body);
  }

  bool is_in_stream = false;

 private:
  template <typename Body>
  void on_threads(uint32_t count, const Body& body) {
    executor_.thread_count = count;
    for (uint32_t thread = 0; thread < count; ++thread) {
      executor_.thread_index = thread;
      body();
    }
  }

  TestExecutor executor_;
  std::vector<std::unique_ptr<RankState>> own_;
  std::vector<std::byte*> pads_;
  std::vector<std::byte*> buffers_;
  CollectiveRunner unused_runner_;
};

// Rank 0 reduces and times out at the last barrier. Rank 1 passes the barrier, because rank 0 has
// signaled its arrival, and then changes its input. When rank 0 resumes, it must not reduce again.
TEST_F(KernelsTest, DoesNotRepeatWorkAfterTimeout) {
  const ThresholdAllReduce zero{sum(0, true), SIZE_MAX};
  const ThresholdAllReduce one{sum(1, true), SIZE_MAX};
  const KernelPlan first = plan(0, zero);
  const KernelPlan other = plan(1, one);
  ASSERT_EQ(first.steps.size(), 3u);  // entry, work, exit
  own(0).words[0] = 10;
  own(1).words[0] = 1;

  run_from(0, first, 0, 3);
  EXPECT_EQ(result_of(0), ResultKind::kTimeout);
  EXPECT_EQ(own(0).record.result.missing[0], 0b10u);
  EXPECT_EQ(own(0).out[0], 0) << "must not reduce before the barrier";
  run_from(1, other, 0, 1);  // passes, but does not reach the exit yet
  run_from(0, first, 0, 3);
  EXPECT_EQ(result_of(0), ResultKind::kTimeout);
  EXPECT_EQ(own(0).out[0], 11);
  run_from(1, other, 1, 3);
  EXPECT_EQ(own(1).out[0], 11);
  own(1).words[0] = 5000;

  run_from(0, first, 0, 3);
  EXPECT_EQ(result_of(0), ResultKind::kNone);
  EXPECT_EQ(own(0).out[0], 11);
}

TEST_F(KernelsTest, RejectsOtherCallsUntilUnfinishedOneIsRepeated) {
  const KernelPlan all = plan(0, ThresholdAllReduce{sum(0, true), SIZE_MAX});
  AllReduce fewer = sum(0, true);
  fewer.count = 3;
  const KernelPlan another = plan(0, ThresholdAllReduce{fewer, SIZE_MAX});
  run_from(0, all, 0, 3);
  run_from(0, another, 0, 3);
  EXPECT_EQ(result_of(0), ResultKind::kUnfinished);
  EXPECT_EQ(own(0).record.result.called.bytes, 12u);
  EXPECT_EQ(own(0).record.result.expected.bytes, 16u);
  run_from(1, plan(1, ThresholdAllReduce{sum(1, true), SIZE_MAX}), 0, 1);
  run_from(0, all, 0, 2);
  EXPECT_EQ(result_of(0), ResultKind::kNone);
}

// The first error from stream work stays on the board and blocks later work until it is reported.
TEST_F(KernelsTest, FirstErrorBlocksLaterWorkUntilReported) {
  is_in_stream = true;
  const SignalPads pads = *SignalPads::make(0, kChannels, {own(0).pad.bytes, own(1).pad.bytes});
  const KernelPlan barrier = plan_for(pads, Signal{Signal::Kind::kBarrier, 0, 0, 0});
  run_from(0, barrier, 0, 1);
  EXPECT_EQ(own(0).board.result.state, 1u);
  EXPECT_EQ(own(0).board.result.kind, ResultKind::kTimeout);
  // Rank 1 has arrived, but nothing runs until the error is reported.
  run_from(1,
           plan_for(*SignalPads::make(1, kChannels, {own(0).pad.bytes, own(1).pad.bytes}),
                    Signal{Signal::Kind::kBarrier, 0, 0, 0}),
           0, 1);
  EXPECT_EQ(pads.line(1, 0, 1).barrier, 1u);
  run_from(0, barrier, 0, 1);
  EXPECT_EQ(pads.line(0, 0, 0).barrier, 0u);
  own(0).board.reported_count = 1;
  run_from(0, barrier, 0, 1);
  EXPECT_EQ(pads.line(0, 0, 0).barrier, 1u);
  EXPECT_EQ(own(0).board.result.state, 1u) << "must not report a second failure";
}

TEST_F(KernelsTest, GroupFailureLeavesNothingUnfinished) {
  const KernelPlan all = plan(0, ThresholdAllReduce{sum(0, true), SIZE_MAX});
  own(0).board.has_failed = 1;
  run_from(0, all, 0, 3);
  EXPECT_EQ(result_of(0), ResultKind::kFailed);
  EXPECT_EQ(own(0).state.is_unfinished, 0u);
  EXPECT_EQ(own(0).state.is_running, 0u);
  EXPECT_EQ(own(0).out[0], 0);
}

// The input buffers temporarily contain results, and must be restored.
TEST_F(KernelsTest, OutOfPlaceTwoShotRestoresItsInput) {
  const ThresholdAllReduce zero{sum(0, true), 0};
  const ThresholdAllReduce one{sum(1, true), 0};
  const KernelPlan first = plan(0, zero);
  const KernelPlan other = plan(1, one);
  own(0).words[0] = 10;
  own(1).words[0] = 1;
  // Both ranks pass all four barriers. Only rank 0 has a part to reduce.
  bool is_done[kRanks] = {};
  for (int turn = 0; turn < 16; ++turn) {
    const int rank = turn % kRanks;
    if (is_done[rank]) continue;
    const KernelPlan& own_plan = rank == 0 ? first : other;
    run_from(rank, own_plan, 0, own_plan.steps.size());
    is_done[rank] = result_of(rank) == ResultKind::kNone;
  }
  EXPECT_TRUE(is_done[0] && is_done[1]);
  EXPECT_EQ(own(0).out[0], 11);
  EXPECT_EQ(own(1).out[0], 11);
  EXPECT_EQ(own(0).words[0], 10);
  EXPECT_EQ(own(1).words[0], 1);
}

// The switch reduces the first eight of ten words (two packs). The other two words are read from
// each rank's memory.
TEST_F(KernelsTest, OutOfPlaceMultimemSumStoresLocally) {
  auto* const multicast = reinterpret_cast<std::byte*>(kMulticast);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (size_t i = 0; i < kWords; ++i) own(rank).words[i] = static_cast<int32_t>(i) + 100 * rank;
  }
  AllReduce all = sum(0, true);
  all.count = 10;
  Reduce one{.range = range(), .count = 10, .reduction = all.reduction, .root = 0, .out = all.out};
  for (const Collective& what : {Collective(MultimemAllReduce{all, multicast}),
                                 Collective(MultimemReduce{one, multicast})}) {
    std::memset(own(0).out, 0, sizeof(own(0).out));
    const KernelPlan first = plan(0, what);
    ASSERT_EQ(first.steps.size(), 4u);
    ASSERT_TRUE(std::holds_alternative<MultimemStep>(first.steps[1]));
    Collective other = what;
    if (auto* reduce = std::get_if<MultimemReduce>(&other)) reduce->request.out = nullptr;
    if (auto* reduce = std::get_if<MultimemAllReduce>(&other)) {
      reduce->request.out = reinterpret_cast<std::byte*>(own(1).out);
    }
    const KernelPlan second = plan(1, other);
    EXPECT_EQ(second.steps.size(), std::holds_alternative<MultimemReduce>(what) ? 2u : 4u);
    run(1, second, 0);  // signals its arrival and times out
    run_from(0, first, 0, 3);
    for (size_t i = 0; i < kWords; ++i) {
      EXPECT_EQ(own(0).out[i], i < 10 ? 2 * static_cast<int32_t>(i) + 100 : 0);
      EXPECT_EQ(own(0).words[i], static_cast<int32_t>(i));
    }
    run_from(1, second, 0, second.steps.size());
    run_from(0, first, 3, 4);
    run_from(1, second, 0, second.steps.size());
    EXPECT_EQ(result_of(0), ResultKind::kNone);
    EXPECT_EQ(result_of(1), ResultKind::kNone);
  }
}

// Stores do not depend on collectives or on their errors.
TEST_F(KernelsTest, StoresRunOutsideOfCollectives) {
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
