// SPDX-License-Identifier: Apache-2.0
//
// Compares all-reduce, reduce and reduce-scatter, between threads and between processes, with a
// local reduction. The file is long because all three share that reference and the argument checks.
#include "symm/collectives/reductions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "symm/collectives/thresholds.h"
#include "unit/symm/collectives/test_group.h"

namespace ashlar::symm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::short_limits;
using testing::test_limits;
using testing::TestGroup;

using Algorithm = Status (*)(const CollectiveContext&, const AllReduce&, const Limits&);
constexpr Algorithm kAlgorithms[] = {one_shot_all_reduce, two_shot_all_reduce, multimem_all_reduce};

// Returns the reduction of all ranks' inputs, computed locally.
std::vector<std::byte> reduce_locally(int world_size, size_t bytes, Reduction reduction,
                                      unsigned seed) {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < world_size; ++rank)
    inputs.push_back(TestGroup::draw(rank, bytes, seed));
  for (const auto& input : inputs) sources.push_back(input.data());
  std::vector<std::byte> out(bytes);
  reduce(reduction, sources, out.data(), bytes / element_bytes(reduction.type));
  return out;
}

struct Shape {
  size_t count = 0;
  size_t offset = 0;
  Reduction reduction{};
  size_t bytes() const { return count * element_bytes(reduction.type); }
};

// Reduces several times on one rank, in place and out of place, and checks the results.
void all_reduce_often(TestGroup& world, int rank, const Shape& shape, Algorithm algorithm) {
  for (unsigned round = 0; round < 3; ++round) {
    const std::vector<std::byte> wanted =
        reduce_locally(world.size(), shape.bytes(), shape.reduction, round);
    const std::vector<std::byte> input = TestGroup::draw(rank, shape.bytes(), round);
    std::vector<std::byte> out(shape.bytes());
    AllReduce request{.range = world.range(static_cast<int64_t>(shape.offset)),
                      .count = static_cast<int64_t>(shape.count),
                      .reduction = shape.reduction,
                      .out = out.data()};
    world.fill(rank, shape.offset, input);
    ASSERT_TRUE(algorithm(world.context(rank), request, test_limits()).ok());
    ASSERT_EQ(out, wanted);
    ASSERT_EQ(world.read(rank, shape.offset, shape.bytes()), input);
    request.out = nullptr;
    ASSERT_TRUE(algorithm(world.context(rank), request, test_limits()).ok());
    ASSERT_EQ(world.read(rank, shape.offset, shape.bytes()), wanted);
  }
}

TEST(AllReduceConcurrency, ResultsAreBitwiseEqualOnAllRanks) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (const int world_size : {1, 2, 3, 5, 8}) {
      for (const size_t count : {1, 7, 16, 1000}) {
        const Shape shape{.count = count, .offset = 8, .reduction = {ElementType::kF32}};
        TestGroup world(world_size, shape.offset + shape.bytes());
        testing::run_as_threads(world_size,
                                [&](int rank) { all_reduce_often(world, rank, shape, algorithm); });
        EXPECT_TRUE(world.buffers().guards_are_intact());
      }
    }
  }
}

// Checks the memory of all ranks as soon as the call has returned on this rank.
void check_all_ranks_after(TestGroup& world, int rank, const Shape& shape, Algorithm algorithm) {
  const auto wait_for_all = [&] {
    ASSERT_TRUE(
        two_shot_all_reduce(world.context(rank), {.range = world.range()}, test_limits()).ok());
  };
  std::vector<std::byte> out(shape.bytes());
  for (unsigned round = 0; round < 25; ++round) {
    AllReduce request{.range = world.range(),
                      .count = static_cast<int64_t>(shape.count),
                      .reduction = shape.reduction,
                      .out = out.data()};
    world.fill(rank, 0, TestGroup::draw(rank, shape.bytes(), round));
    ASSERT_TRUE(algorithm(world.context(rank), request, test_limits()).ok());
    for (int peer = 0; peer < world.size(); ++peer) {
      ASSERT_EQ(world.read(peer, 0, shape.bytes()), TestGroup::draw(peer, shape.bytes(), round));
    }
    wait_for_all();
    request.out = nullptr;
    ASSERT_TRUE(algorithm(world.context(rank), request, test_limits()).ok());
    for (int peer = 0; peer < world.size(); ++peer) {
      ASSERT_EQ(world.read(peer, 0, shape.bytes()), out);
    }
    wait_for_all();
  }
}

TEST(AllReduceConcurrency, IsCompleteOnAllRanksWhenItReturns) {
  for (const Algorithm algorithm : kAlgorithms) {
    const Shape shape{.count = 5000, .reduction = {ElementType::kI32}};
    TestGroup world(4, shape.bytes());
    testing::run_as_threads(
        4, [&](int rank) { check_all_ranks_after(world, rank, shape, algorithm); });
  }
}

// A sanitizer's allocator aborts instead of throwing std::bad_alloc.
#if !defined(ASHLAR_SANITIZED)
TEST(AllReduce, DoesNotStartWithoutScratchMemory) {
  TestGroup world(2, 64);
  SymmetricRange endless = world.range();
  endless.buffer_bytes = size_t{1} << 62;
  const AllReduce request{.range = endless, .count = int64_t{1} << 59};
  EXPECT_THROW((void)one_shot_all_reduce(world.context(0), request, short_limits()).ok(),
               std::bad_alloc);
  EXPECT_EQ(world.context(0).pads.line(1, 1, 0).barrier, 0u);
  testing::run_as_threads(
      2, [&](int rank) { all_reduce_often(world, rank, {.count = 16}, one_shot_all_reduce); });
}
#endif

TEST(AllReduce, SupportsEveryTypeAcrossProcesses) {
  for (int type = 0; type < kElementTypeCount; ++type) {
    for (const Algorithm algorithm : kAlgorithms) {
      const Shape shape{.count = 333,
                        .offset = 16,
                        .reduction = {static_cast<ElementType>(type), ReduceOp::kMax}};
      TestGroup world(4, shape.offset + shape.bytes());
      testing::run_as_processes(4,
                                [&](int rank) { all_reduce_often(world, rank, shape, algorithm); });
      EXPECT_TRUE(world.buffers().guards_are_intact());
    }
  }
}

TEST(AllReduce, SupportsManyChunksAcrossProcesses) {
  for (const int world_size : {2, 3}) {
    for (const Algorithm algorithm : kAlgorithms) {
      const Shape shape{.count = 100'003, .reduction = {ElementType::kF32, ReduceOp::kAvg}};
      TestGroup world(world_size, shape.bytes());
      testing::run_as_processes(world_size,
                                [&](int rank) { all_reduce_often(world, rank, shape, algorithm); });
      EXPECT_TRUE(world.buffers().guards_are_intact());
    }
  }
}

TEST(AllReduceConcurrency, SupportsSeventyTwoRanks) {
  for (const Algorithm algorithm : kAlgorithms) {
    const Shape shape{.count = 40, .reduction = {ElementType::kI32}};
    TestGroup world(72, shape.bytes());
    testing::run_as_threads(72, [&](int rank) { all_reduce_often(world, rank, shape, algorithm); });
  }
}

TEST(AllReduceConcurrency, ActsAsBarrierForZeroElements) {
  TestGroup world(2, 16);
  testing::run_as_threads(2, [&](int rank) {
    EXPECT_TRUE(
        two_shot_all_reduce(world.context(rank), {.range = world.range(16)}, test_limits()).ok());
  });
  EXPECT_EQ(world.context(0).pads.line(0, 1, 0).barrier, 2u);
}

TEST(AllReduceConcurrency, UsesOneShotUpToTheThreshold) {
  TestGroup world(2, 64);
  testing::run_as_threads(2, [&](int rank) {
    const AllReduce request{.range = world.range(), .count = 16};
    ASSERT_TRUE(all_reduce(world.context(rank), request, 64, test_limits()).ok());
    EXPECT_THAT(
        all_reduce(world.context(rank), request, rank == 0 ? 63 : 64, test_limits()).message(),
        AllOf(HasSubstr("rank 0 a two-shot"), HasSubstr("rank 1 a one-shot")));
  });
}

TEST(AllReduce, ChecksArgumentsBeforeStarting) {
  TestGroup world(2, 64);
  std::vector<std::byte> out(64);
  const auto refusal = [&](AllReduce request) {
    const Status one = one_shot_all_reduce(world.context(0), request, short_limits());
    const Status two = two_shot_all_reduce(world.context(0), request, short_limits());
    EXPECT_EQ(one.kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(one.message(), two.message());
    return one.message();
  };
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(refusal({.range = world.range(-4), .count = 1}), HasSubstr("offset -4"));
  EXPECT_THAT(refusal({.range = world.range(2), .count = 1}), HasSubstr("multiple of"));
  EXPECT_THAT(refusal({.range = world.range(64), .count = 1}), HasSubstr("not within"));
  EXPECT_THAT(refusal({.range = world.range(huge - 3), .count = 1}), HasSubstr("not within"));
  EXPECT_THAT(refusal({.range = world.range(), .count = 17}),
              HasSubstr("68 bytes at offset 0 are not within a buffer of 64 bytes"));
  EXPECT_THAT(refusal({.range = world.range(), .count = -1}), HasSubstr("negative"));
  EXPECT_THAT(refusal({.range = world.range(), .count = huge}), HasSubstr("more than 2^63"));
  EXPECT_THAT(
      refusal(
          {.range = world.range(), .count = 1, .reduction = {ElementType::kF16, ReduceOp::kOr}}),
      HasSubstr("or of f16"));
  EXPECT_THAT(refusal({.range = world.range(), .count = 4, .out = out.data() + 1}),
              HasSubstr("out is not aligned"));
  EXPECT_THAT(
      refusal({.range = world.range(), .count = 16, .out = world.buffers().memory_of(0) + 60}),
      HasSubstr("out overlaps"));
  SymmetricRange few = world.range();
  few.bases = few.bases.first(1);
  EXPECT_THAT(refusal({.range = few, .count = 1}), HasSubstr("1 buffers for 2 ranks"));
  EXPECT_EQ(world.context(0).pads.line(1, 1, 0).barrier, 0u);
}

TEST(AllReduce, RejectsUnreachableBuffers) {
  TestGroup world(2, 64);
  const std::vector<std::byte*> bases{world.buffers().memory_of(0), nullptr};
  const SymmetricRange range{.bases = bases, .buffer_bytes = 64};
  EXPECT_EQ(
      one_shot_all_reduce(world.context(0), {.range = range, .count = 1}, test_limits()).kind(),
      StatusKind::kUnsupported);
}

TEST(AllReduceConcurrency, MismatchedCallsFailOnAllRanks) {
  TestGroup world(3, 256);
  testing::run_as_threads(3, [&](int rank) {
    std::vector<std::byte> out(64);
    AllReduce request{.range = world.range(), .count = rank == 2 ? 8 : 16, .out = out.data()};
    // The algorithm of rank 2 has a different number of barriers than the algorithm of the other
    // ranks.
    const Algorithm algorithm = kAlgorithms[rank == 2 ? 0 : 1];
    const Status wrong = algorithm(world.context(rank), request, test_limits());
    EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(wrong.message(),
                AllOf(HasSubstr("rank 0 a two-shot all-reduce (sum of f32, 64 bytes at 0)"),
                      HasSubstr("rank 2 a one-shot all-reduce (sum of f32, 32 bytes at 0)")));
    all_reduce_often(world, rank, {.count = 16},
                     algorithm == kAlgorithms[0] ? algorithm : kAlgorithms[0]);
  });
}

TEST(AllReduceConcurrency, FailsOnAllRanksWithDifferentMemory) {
  for (const Algorithm algorithm : kAlgorithms) {
    TestGroup world(2, 64);
    testing::run_as_threads(2, [&](int rank) {
      const uint32_t memory = 0xA0 + static_cast<uint32_t>(rank);
      const AllReduce request{.range = world.range(0, memory), .count = 16};
      const Status wrong = algorithm(world.context(rank), request, test_limits());
      EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
      EXPECT_THAT(wrong.message(), AllOf(HasSubstr("64 bytes at 0 of memory a0)"),
                                         HasSubstr("64 bytes at 0 of memory a1)")));
      all_reduce_often(world, rank, {.count = 16}, algorithm);
    });
  }
}

TEST(AllReduceConcurrency, RejectsResumingWithOtherMemory) {
  TestGroup world(2, 64);
  const AllReduce request{.range = world.range(0, 1), .count = 16};
  EXPECT_EQ(one_shot_all_reduce(world.context(0), request, short_limits()).kind(),
            StatusKind::kTimeout);
  const AllReduce other{.range = world.range(0, 2), .count = 16};
  EXPECT_EQ(one_shot_all_reduce(world.context(0), other, short_limits()).kind(),
            StatusKind::kInvalidArgument);
}

TEST(AllReduceConcurrency, ResumesAfterTimeout) {
  for (const Algorithm algorithm : kAlgorithms) {
    TestGroup world(2, 64);
    const Shape shape{.count = 16};
    for (int rank = 0; rank < 2; ++rank) world.fill(rank, 0, TestGroup::draw(rank, 64, 7));
    const AllReduce request{.range = world.range(), .count = 16};
    EXPECT_EQ(algorithm(world.context(0), request, short_limits()).kind(), StatusKind::kTimeout);
    const AllReduce other{.range = world.range(), .count = 8};
    const Status refused = algorithm(world.context(0), other, test_limits());
    EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("has timed out and must be called again first"));
    testing::run_as_threads(2, [&](int rank) {
      ASSERT_TRUE(algorithm(world.context(rank), request, test_limits()).ok());
      EXPECT_EQ(world.read(rank, 0, 64), reduce_locally(2, 64, shape.reduction, 7));
    });
  }
}

TEST(AllReduce, ReportsFailureOfTheGroup) {
  TestGroup world(2, 64);
  Failure failure;
  failure.report(Status::peer_lost("rank 1 died"));
  const AllReduce request{.range = world.range(), .count = 16};
  EXPECT_EQ(two_shot_all_reduce(world.context(0), request, {failure}).message(), "rank 1 died");
}

TEST(AllReduceConcurrency, SerializesThreadsOfOneRank) {
  TestGroup world(2, 64);
  testing::run_as_threads(4, [&](int thread) {
    const int rank = thread % 2;
    const AllReduce request{.range = world.range(), .count = 16, .reduction = {ElementType::kU32}};
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(one_shot_all_reduce(world.context(rank), request, test_limits()).ok());
    }
  });
  EXPECT_EQ(world.context(0).pads.line(0, 1, 0).barrier, 300u);
}

using ToRoot = Status (*)(const CollectiveContext&, const Reduce&, const Limits&);

void reduce_to_every_root(TestGroup& world, int rank, const Shape& shape, ToRoot algorithm) {
  const std::vector<std::byte> untouched(shape.bytes(), std::byte{0x77});
  for (int root = 0; root < world.size(); ++root) {
    const auto seed = static_cast<unsigned>(root);
    const std::vector<std::byte> input = TestGroup::draw(rank, shape.bytes(), seed);
    std::vector<std::byte> out = untouched;
    const Reduce request{.range = world.range(static_cast<int64_t>(shape.offset)),
                         .count = static_cast<int64_t>(shape.count),
                         .reduction = shape.reduction,
                         .root = root,
                         .out = rank == root ? out.data() : nullptr};
    world.fill(rank, shape.offset, input);
    ASSERT_TRUE(algorithm(world.context(rank), request, test_limits()).ok());
    EXPECT_EQ(out, rank == root ? reduce_locally(world.size(), shape.bytes(), shape.reduction, seed)
                                : untouched);
    EXPECT_EQ(world.read(rank, shape.offset, shape.bytes()), input);
  }
}

TEST(ReduceConcurrency, EqualsAllReduceAndPreservesInput) {
  for (const ToRoot algorithm : {reduce_to_root, multimem_reduce}) {
    for (const int world_size : {1, 2, 3, 5}) {
      for (const size_t count : {0, 1, 333}) {
        const Shape shape{.count = count, .offset = 8, .reduction = {ElementType::kBf16}};
        TestGroup world(world_size, shape.offset + shape.bytes());
        testing::run_as_threads(
            world_size, [&](int rank) { reduce_to_every_root(world, rank, shape, algorithm); });
        EXPECT_TRUE(world.buffers().guards_are_intact());
      }
    }
  }
}

TEST(Reduce, ChecksArgumentsBeforeStarting) {
  TestGroup world(2, 64);
  std::vector<std::byte> out(64);
  const auto refusal = [&](const Reduce& request) {
    const Status one = reduce_to_root(world.context(0), request, short_limits());
    EXPECT_EQ(one.kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(one.message(), multimem_reduce(world.context(0), request, short_limits()).message());
    return one.message();
  };
  const SymmetricRange range = world.range();
  EXPECT_THAT(refusal({.range = range, .count = 1, .root = 2}), HasSubstr("root: "));
  EXPECT_THAT(refusal({.range = range, .count = 1, .root = -1}), HasSubstr("root: "));
  EXPECT_THAT(refusal({.range = range, .count = 1}), HasSubstr("out is null"));
  EXPECT_THAT(refusal({.range = range, .count = 4, .out = out.data() + 1}),
              HasSubstr("out is not aligned"));
  EXPECT_THAT(refusal({.range = range, .count = 16, .out = world.buffers().memory_of(0) + 60}),
              HasSubstr("out overlaps"));
  EXPECT_THAT(refusal({.range = range, .count = 17, .root = 1}), HasSubstr("not within"));
  EXPECT_EQ(world.context(0).pads.line(1, 1, 0).barrier, 0u);
}

TEST(ReduceConcurrency, FailsOnAllRanksWithDifferentRoots) {
  TestGroup world(2, 64);
  testing::run_as_threads(2, [&](int rank) {
    std::vector<std::byte> out(64);
    const Reduce request{.range = world.range(), .count = 16, .root = rank, .out = out.data()};
    EXPECT_THAT(reduce_to_root(world.context(rank), request, test_limits()).message(),
                AllOf(HasSubstr("rank 0 a reduce (sum of f32, to rank 0, 64 bytes at 0)"),
                      HasSubstr("rank 1 a reduce (sum of f32, to rank 1, 64 bytes at 0)")));
    reduce_to_every_root(world, rank, {.count = 16}, reduce_to_root);
  });
}

void reduce_scatter_once(TestGroup& world, int rank, const Shape& shape, bool is_in_place) {
  const auto ranks = static_cast<size_t>(world.size());
  const size_t total = shape.bytes() * ranks;
  const std::vector<std::byte> wanted = reduce_locally(world.size(), total, shape.reduction, 3);
  world.fill(rank, shape.offset, TestGroup::draw(rank, total, 3));
  std::vector<std::byte> room(shape.bytes());
  const size_t begin = shape.bytes() * static_cast<size_t>(rank);
  std::byte* own = world.buffers().memory_of(rank) + shape.offset + begin;
  std::byte* out = is_in_place ? own : room.data();
  ASSERT_TRUE(reduce_scatter(world.context(rank),
                             {.range = world.range(static_cast<int64_t>(shape.offset)),
                              .count = static_cast<int64_t>(shape.count),
                              .reduction = shape.reduction,
                              .out = out},
                             test_limits())
                  .ok());
  EXPECT_EQ(std::memcmp(out, wanted.data() + begin, shape.bytes()), 0);
}

TEST(ReduceScatterConcurrency, GivesEachRankItsPart) {
  for (const int world_size : {1, 2, 3, 5}) {
    const Shape shape{.count = 35, .offset = 4, .reduction = {ElementType::kBf16}};
    TestGroup world(world_size, shape.offset + shape.bytes() * static_cast<size_t>(world_size));
    testing::run_as_threads(world_size, [&](int rank) {
      reduce_scatter_once(world, rank, shape, false);
      reduce_scatter_once(world, rank, shape, true);
    });
    EXPECT_TRUE(world.buffers().guards_are_intact());
  }
}

TEST(ReduceScatter, RejectsInvalidOutput) {
  TestGroup world(2, 64);
  std::vector<std::byte> room(64);
  const auto refusal = [&](std::byte* out, int64_t count) {
    const ReduceScatter request{.range = world.range(), .count = count, .out = out};
    return reduce_scatter(world.context(0), request, short_limits()).message();
  };
  EXPECT_THAT(refusal(room.data() + 2, 8), HasSubstr("out is not aligned"));
  EXPECT_THAT(refusal(nullptr, 8), HasSubstr("out is null"));
  EXPECT_THAT(refusal(world.buffers().memory_of(0) + 32, 8), HasSubstr("out overlaps"));
  EXPECT_THAT(refusal(room.data(), 9), HasSubstr("72 bytes at offset 0 are not within"));
}

TEST(ThresholdsConcurrency, AreEqualOnAllRanks) {
  TestGroup world(2, 64 * 1024);
  std::vector<std::string> tables(2);
  testing::run_as_threads(2, [&](int rank) {
    const Result<Thresholds> found =
        measure_thresholds(world.context(rank), world.range(), 2, test_limits());
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(found->measurements.size(), 7u);
    tables[static_cast<size_t>(rank)] = found->to_string();
  });
  EXPECT_EQ(tables[0], tables[1]);
  EXPECT_THAT(tables[0], AllOf(HasSubstr("64.00 KiB"), HasSubstr("one-shot up to ")));
}

TEST(Thresholds, RejectTooSmallRange) {
  TestGroup world(1, 1024);
  EXPECT_EQ(measure_thresholds(world.context(0), world.range(), 1, test_limits()).status().kind(),
            StatusKind::kInvalidArgument);
}

}  // namespace
}  // namespace ashlar::symm
