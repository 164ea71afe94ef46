// SPDX-License-Identifier: Apache-2.0
//
// Tests the model of the driver's address assignment.
#include "device/sim/driver_addresses.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/units.h"

namespace ashlar::sim {
namespace {

constexpr uint64_t kEnd = uint64_t{1} << 40;

// A sequence of allocations and frees, measured on an H200 with driver 580 after filling the holes
// that the context left. `steps` has the size in MiB of each allocation, or -n for a free of the
// n-th allocation. `mib_below` has the distance in MiB of each allocation from the end of the first
// chunk.
struct MeasuredSequence {
  const char* name;
  std::vector<int> steps;
  std::vector<uint64_t> mib_below;
};

class MeasuredAddresses : public ::testing::TestWithParam<MeasuredSequence> {};

TEST_P(MeasuredAddresses, MatchMeasuredAddresses) {
  DriverAddresses addresses(kMiB, kEnd);
  std::vector<uint64_t> found;
  for (const int step : GetParam().steps) {
    if (step < 0) {
      addresses.free(kEnd - found.at(static_cast<size_t>(-step - 1)) * kMiB);
    } else {
      found.push_back((kEnd - addresses.allocate(static_cast<size_t>(step) * kMiB)) / kMiB);
    }
  }
  EXPECT_EQ(found, GetParam().mib_below);
}

INSTANTIATE_TEST_SUITE_P(
    Driver580, MeasuredAddresses,
    ::testing::Values(
        MeasuredSequence{"NewChunkIsBelowOlderChunks", {20, 20, 94}, {32, 64, 160}},
        MeasuredSequence{"RestOfAChunkIsUsed", {20, 20, 2, 2, 12}, {32, 64, 44, 42, 12}},
        MeasuredSequence{"NewestChunkIsUsedFirst",
                         {20, 20, 40, 20, -2, 30, 2, 2, 12, 2},
                         {32, 64, 128, 88, 160, 130, 68, 12, 66}},
        MeasuredSequence{"SmallestHoleOfAChunkIsUsedFirst",
                         {320, 2, 2, 2, -2, 2, -1, 20, 2, -3, 2, 10, -6, 2},
                         {320, 352, 350, 348, 352, 346, 326, 350, 32, 22}},
        MeasuredSequence{
            "GapOfChunkSizeIsNotUsed", {20, 20, 20, -2, 20, 30}, {32, 64, 96, 128, 160}},
        MeasuredSequence{
            "GapOfTwoChunksIsUsed", {20, 20, 20, 20, -2, -3, 20, 20}, {32, 64, 96, 128, 64, 160}},
        MeasuredSequence{"NewChunkIsAtTheUpperEndOfTheGap",
                         {20, 20, 20, 20, 20, -2, -3, -4, 40, 20},
                         {32, 64, 96, 128, 160, 96, 56}},
        MeasuredSequence{
            "EmptyChunkIsReturned", {100, -1, 100, 200, -2, 20, 20}, {128, 128, 352, 152, 32}}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(DriverAddressesTest, NeverOverlapUnderRandomUse) {
  DriverAddresses addresses(kMiB, kEnd);
  Random random(3);
  std::map<uint64_t, size_t> live;
  for (int step = 0; step < 5000; ++step) {
    if (live.empty() || random.below(5) < 3) {
      const size_t bytes = (1 + random.below(60)) * kMiB;
      const uint64_t at = addresses.allocate(bytes);
      ASSERT_NE(at, 0U);
      const auto after = live.lower_bound(at);
      ASSERT_TRUE(after == live.end() || after->first >= at + bytes);
      ASSERT_TRUE(after == live.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= at);
      live[at] = bytes;
    } else {
      const auto chosen = std::next(live.begin(), static_cast<int>(random.below(live.size())));
      addresses.free(chosen->first);
      live.erase(chosen);
    }
  }
  for (const auto& [at, bytes] : live) addresses.free(at);
  EXPECT_EQ(addresses.allocate(kMiB), kEnd - 32 * kMiB) << "all memory was released";
}

TEST(DriverAddressesTest, ReturnZeroWithoutRoom) {
  DriverAddresses addresses(kEnd - 96 * kMiB, kEnd);
  EXPECT_EQ(addresses.allocate(65 * kMiB), 0U) << "a chunk needs 32 MiB more than it has";
  EXPECT_NE(addresses.allocate(33 * kMiB), 0U);
  EXPECT_EQ(addresses.allocate(33 * kMiB), 0U);
  EXPECT_EQ(addresses.allocate(SIZE_MAX), 0U);
  EXPECT_EQ(addresses.allocate(0), 0U);
  addresses.free(12345);
}

TEST(DriverAddressesTest, AddedChunkIsNewerThanChunksWithRoom) {
  DriverAddresses addresses(kMiB, kEnd);
  addresses.allocate(20 * kMiB);
  addresses.add_chunk({kEnd + 10 * kMiB, kEnd + 20 * kMiB}, 2 * kMiB);
  EXPECT_EQ(addresses.allocate(2 * kMiB), kEnd + 10 * kMiB);
  addresses.allocate(20 * kMiB);
  EXPECT_EQ(addresses.allocate(2 * kMiB), kEnd - 44 * kMiB) << "a chunk created later";
}

TEST(DriverAddressesTest, AddedChunkIsOldestIfNoChunkHasRoom) {
  DriverAddresses addresses(kMiB, kEnd);
  addresses.allocate(30 * kMiB);
  addresses.add_chunk({kEnd, kEnd + 20 * kMiB}, 12 * kMiB);
  EXPECT_EQ(addresses.allocate(2 * kMiB), kEnd - 2 * kMiB);
  EXPECT_EQ(addresses.allocate(2 * kMiB), kEnd);
}

TEST(DriverAddressesTest, AdjacentGapsMergeAndClosedGapsAreUnused) {
  DriverAddresses addresses(kMiB, kEnd);
  addresses.close_gap({kEnd - 128 * kMiB, kEnd});
  addresses.open_gap({kEnd - 64 * kMiB, kEnd - 32 * kMiB});
  EXPECT_EQ(addresses.next_address(20 * kMiB), kEnd - 160 * kMiB) << "32 MiB are not enough";
  addresses.open_gap({kEnd - 32 * kMiB, kEnd});
  EXPECT_EQ(addresses.next_address(20 * kMiB), kEnd - 32 * kMiB);
  EXPECT_EQ(addresses.allocate(20 * kMiB), kEnd - 32 * kMiB);
  EXPECT_EQ(addresses.allocate(20 * kMiB), kEnd - 160 * kMiB);
}

}  // namespace
}  // namespace ashlar::sim
