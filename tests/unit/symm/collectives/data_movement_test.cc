// SPDX-License-Identifier: Apache-2.0
//
// Tests all-gather, broadcast and all-to-all, between threads and between processes.
#include "symm/collectives/data_movement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/symm/collectives/test_group.h"

namespace ashlar::symm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::short_limits;
using testing::test_limits;
using testing::TestGroup;

void all_gather_often(TestGroup& world, int rank, size_t bytes, size_t offset) {
  std::vector<std::byte> wanted;
  for (unsigned round = 0; round < 3; ++round) {
    wanted.clear();
    for (int peer = 0; peer < world.size(); ++peer) {
      const std::vector<std::byte> share = TestGroup::draw(peer, bytes, round);
      wanted.insert(wanted.end(), share.begin(), share.end());
    }
    const std::vector<std::byte> in = TestGroup::draw(rank, bytes, round);
    const AllGather request{.range = world.range(static_cast<int64_t>(offset)),
                            .bytes = static_cast<int64_t>(bytes),
                            .in = in.data()};
    ASSERT_TRUE(all_gather(world.context(rank), request, test_limits()).ok());
    ASSERT_EQ(world.read(rank, offset, wanted.size()), wanted);
    ASSERT_TRUE(barrier(world.context(rank).pads, 0, test_limits()).ok());
  }
}

TEST(AllGatherConcurrency, GathersAllSharesOnAllRanks) {
  for (const int world_size : {1, 2, 3, 8}) {
    for (const size_t bytes : {0, 1, 13, 4096}) {
      TestGroup world(world_size, 3 + bytes * static_cast<size_t>(world_size));
      testing::run_as_threads(world_size,
                              [&](int rank) { all_gather_often(world, rank, bytes, 3); });
      EXPECT_TRUE(world.buffers().guards_are_intact());
    }
  }
}

TEST(AllGather, GathersAllSharesInAllProcesses) {
  for (const int world_size : {2, 5}) {
    TestGroup world(world_size, 70'000 * static_cast<size_t>(world_size));
    testing::run_as_processes(world_size,
                              [&](int rank) { all_gather_often(world, rank, 70'000, 0); });
    EXPECT_TRUE(world.buffers().guards_are_intact());
  }
}

TEST(AllGatherConcurrency, WorksInPlace) {
  TestGroup world(3, 24);
  testing::run_as_threads(3, [&](int rank) {
    world.fill(rank, 8 * static_cast<size_t>(rank), TestGroup::draw(rank, 8, 1));
    const AllGather request{
        .range = world.range(), .bytes = 8, .in = world.buffers().memory_of(rank) + 8 * rank};
    ASSERT_TRUE(all_gather(world.context(rank), request, test_limits()).ok());
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(world.read(rank, 8 * static_cast<size_t>(peer), 8), TestGroup::draw(peer, 8, 1));
    }
  });
}

TEST(AllGather, RejectsInvalidSizes) {
  TestGroup world(2, 64);
  const std::vector<std::byte> in(64);
  const auto refusal = [&](AllGather request) {
    const Status wrong = all_gather(world.context(0), request, short_limits());
    EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
    return wrong.message();
  };
  EXPECT_THAT(refusal({.range = world.range(), .bytes = 33, .in = in.data()}),
              HasSubstr("66 bytes at offset 0 are not within"));
  EXPECT_THAT(refusal({.range = world.range(), .bytes = -1, .in = in.data()}),
              HasSubstr("negative"));
  EXPECT_THAT(refusal({.range = world.range(), .bytes = INT64_MAX, .in = in.data()}),
              HasSubstr("more than 2^63"));
  EXPECT_THAT(refusal({.range = world.range(), .bytes = 32}), HasSubstr("in is null"));
  EXPECT_THAT(
      refusal({.range = world.range(), .bytes = 32, .in = world.buffers().memory_of(0) + 16}),
      HasSubstr("in overlaps"));
}

void broadcast_from_all(TestGroup& world, int rank, size_t bytes) {
  for (int root = 0; root < world.size(); ++root) {
    const std::vector<std::byte> wanted = TestGroup::draw(root, bytes, 5);
    std::vector<std::byte> out(bytes);
    world.fill(rank, 5, TestGroup::draw(rank, bytes, 5));
    Broadcast request{.range = world.range(5),
                      .bytes = static_cast<int64_t>(bytes),
                      .root = root,
                      .out = out.data()};
    ASSERT_TRUE(broadcast(world.context(rank), request, test_limits()).ok());
    ASSERT_EQ(out, wanted);
    request.out = nullptr;
    ASSERT_TRUE(broadcast(world.context(rank), request, test_limits()).ok());
    ASSERT_EQ(world.read(rank, 5, bytes), wanted);
  }
}

TEST(BroadcastConcurrency, CopiesRootDataToAllRanks) {
  for (const int world_size : {1, 2, 3, 5}) {
    TestGroup world(world_size, 105);
    testing::run_as_threads(world_size, [&](int rank) { broadcast_from_all(world, rank, 100); });
    EXPECT_TRUE(world.buffers().guards_are_intact());
  }
}

TEST(Broadcast, CopiesRootDataToAllProcesses) {
  TestGroup world(4, 5 + 99'999);
  testing::run_as_processes(4, [&](int rank) { broadcast_from_all(world, rank, 99'999); });
  EXPECT_TRUE(world.buffers().guards_are_intact());
}

TEST(Broadcast, RejectsUnknownRoot) {
  TestGroup world(2, 64);
  for (const int root : {-1, 2}) {
    const Status wrong = broadcast(
        world.context(0), {.range = world.range(), .bytes = 8, .root = root}, short_limits());
    EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(wrong.message(), HasSubstr("expected 0 to 1"));
  }
}

TEST(BroadcastConcurrency, FailsOnAllRanksWithDifferentRoots) {
  TestGroup world(2, 64);
  testing::run_as_threads(2, [&](int rank) {
    const Broadcast request{.range = world.range(), .bytes = 8, .root = rank};
    EXPECT_THAT(broadcast(world.context(rank), request, test_limits()).message(),
                HasSubstr("rank 0 a broadcast (from rank 0, 8 bytes at 0), rank 1 a broadcast "
                          "(from rank 1, 8 bytes at 0)"));
  });
}

void all_to_all_often(TestGroup& world, int rank, size_t bytes) {
  const auto ranks = static_cast<size_t>(world.size());
  for (unsigned round = 0; round < 3; ++round) {
    world.fill(rank, 1, TestGroup::draw(rank, bytes * ranks, round));
    std::vector<std::byte> out(bytes * ranks);
    const AllToAll request{
        .range = world.range(1), .bytes = static_cast<int64_t>(bytes), .out = out.data()};
    ASSERT_TRUE(all_to_all(world.context(rank), request, test_limits()).ok());
    for (int peer = 0; peer < world.size(); ++peer) {
      const std::vector<std::byte> theirs = TestGroup::draw(peer, bytes * ranks, round);
      ASSERT_EQ(std::memcmp(out.data() + bytes * static_cast<size_t>(peer),
                            theirs.data() + bytes * static_cast<size_t>(rank), bytes),
                0);
    }
  }
}

TEST(AllToAllConcurrency, ExchangesEqualShares) {
  for (const int world_size : {1, 2, 3, 5}) {
    TestGroup world(world_size, 1 + 17 * static_cast<size_t>(world_size));
    testing::run_as_threads(world_size, [&](int rank) { all_to_all_often(world, rank, 17); });
  }
}

TEST(AllToAll, ExchangesEqualSharesOfProcesses) {
  TestGroup world(4, 1 + 4 * 50'000);
  testing::run_as_processes(4, [&](int rank) { all_to_all_often(world, rank, 50'000); });
}

TEST(AllToAll, RejectsOutputInsideTheRange) {
  TestGroup world(2, 64);
  EXPECT_THAT(all_to_all(world.context(0),
                         {.range = world.range(), .bytes = 32, .out = world.buffers().memory_of(0)},
                         short_limits())
                  .message(),
              HasSubstr("out overlaps"));
}

// Rank r sends r + p rows to rank p, filled with 10 r + p.
TEST(AllToAllVConcurrency, ExchangesUnequalShares) {
  for (const int world_size : {1, 2, 3, 5}) {
    TestGroup world(world_size, 4 + 4 * 64);
    testing::run_as_threads(world_size, [&](int rank) {
      std::vector<int64_t> splits;
      std::vector<int32_t> rows;
      std::vector<int32_t> wanted;
      for (int peer = 0; peer < world_size; ++peer) {
        splits.push_back(rank + peer);
        rows.insert(rows.end(), static_cast<size_t>(rank + peer), 10 * rank + peer);
        wanted.insert(wanted.end(), static_cast<size_t>(rank + peer), 10 * peer + rank);
      }
      if (!rows.empty()) {
        std::memcpy(world.buffers().memory_of(rank) + 4, rows.data(), rows.size() * 4);
      }
      std::vector<int32_t> out(wanted.size());
      std::vector<int64_t> out_splits(splits.size());
      std::vector<int64_t> out_offsets(splits.size());
      const AllToAllV request{.range = world.range(4),
                              .row_bytes = 4,
                              .splits = splits,
                              .out = reinterpret_cast<std::byte*>(out.data()),
                              .out_bytes = static_cast<int64_t>(out.size() * 4),
                              .out_splits = out_splits,
                              .out_offsets = out_offsets};
      ASSERT_TRUE(all_to_all_v(world.context(rank), request, test_limits()).ok());
      EXPECT_EQ(out, wanted);
      EXPECT_EQ(out_splits, splits);
      int64_t next = 0;
      for (size_t peer = 0; peer < splits.size(); ++peer) {
        EXPECT_EQ(out_offsets[peer], next);
        next += splits[peer];
      }
    });
  }
}

// The arguments of one of two ranks. Its shares are at the beginning of its range.
struct Shares {
  AllToAllV request(TestGroup& world) {
    return {.range = world.range(),
            .row_bytes = row_bytes,
            .splits = splits,
            .out = out.data(),
            .out_bytes = static_cast<int64_t>(out.size()),
            .out_splits = out_splits,
            .out_offsets = out_offsets};
  }

  int64_t row_bytes = 2;
  std::vector<int64_t> splits{};
  std::vector<std::byte> out = std::vector<std::byte>(64);
  std::vector<int64_t> out_splits = std::vector<int64_t>(2);
  std::vector<int64_t> out_offsets = std::vector<int64_t>(2);
};

TEST(AllToAllVConcurrency, ReportsSmallOutputOnOneRankOnly) {
  TestGroup world(2, 64);
  testing::run_as_threads(2, [&](int rank) {
    Shares shares{.splits = {4, 2}, .out = std::vector<std::byte>(8)};
    const Status ended = all_to_all_v(world.context(rank), shares.request(world), test_limits());
    if (rank == 1) {
      EXPECT_TRUE(ended.ok());
      return;
    }
    EXPECT_EQ(ended.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(ended.message(), HasSubstr("room for 8 bytes, but the ranks send 16"));
    EXPECT_THAT(shares.out_splits, ElementsAre(4, 4));
  });
}

TEST(AllToAllVConcurrency, FailsOnAllRanksWhenOneCallsSomethingElse) {
  TestGroup world(2, 64);
  testing::run_as_threads(2, [&](int rank) {
    Shares shares{.splits = {1, 1}};
    const Status ended =
        rank == 0
            ? all_to_all_v(world.context(rank), shares.request(world), test_limits())
            : broadcast(world.context(rank), {.range = world.range(), .bytes = 8}, test_limits());
    EXPECT_EQ(ended.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(ended.message(), HasSubstr("ranks made different calls"));
  });
}

TEST(AllToAllV, RejectsInvalidSplits) {
  TestGroup world(2, 64);
  const auto refusal = [&](std::vector<int64_t> splits, int64_t row_bytes) {
    Shares shares{.row_bytes = row_bytes, .splits = std::move(splits)};
    const Status wrong = all_to_all_v(world.context(0), shares.request(world), short_limits());
    EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
    return wrong.message();
  };
  EXPECT_THAT(refusal({1, -1}, 1), HasSubstr("the split for rank 1: a split is -1"));
  EXPECT_THAT(refusal({1, INT64_MAX}, 2), HasSubstr("more than 2^63"));
  EXPECT_THAT(refusal({INT64_MAX, INT64_MAX}, 1), HasSubstr("add up to more than 2^63"));
  EXPECT_THAT(refusal({32, 33}, 1), HasSubstr("65 bytes at offset 0 are not within"));
  EXPECT_THAT(refusal({1}, 1), HasSubstr("splits has 1 entries: expected 2"));
  EXPECT_THAT(refusal({1, 1}, 0), HasSubstr("rows of 0 bytes"));
  EXPECT_THAT(refusal({1, 1}, -8), HasSubstr("rows of -8 bytes"));
}

TEST(AllToAllVConcurrency, FailsOnAllRanksWithDifferentMemory) {
  TestGroup world(2, 64);
  testing::run_as_threads(2, [&](int rank) {
    const std::vector<int64_t> splits{1, 1};
    std::vector<int64_t> out_splits(2);
    std::vector<int64_t> out_offsets(2);
    std::vector<std::byte> out(16);
    const AllToAllV request{.range = world.range(0, 1 + static_cast<uint32_t>(rank)),
                            .row_bytes = 4,
                            .splits = splits,
                            .out = out.data(),
                            .out_bytes = 16,
                            .out_splits = out_splits,
                            .out_offsets = out_offsets};
    const Status wrong = all_to_all_v(world.context(rank), request, test_limits());
    EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(wrong.message(), HasSubstr("ranks made different calls"));
  });
}

}  // namespace
}  // namespace ashlar::symm
