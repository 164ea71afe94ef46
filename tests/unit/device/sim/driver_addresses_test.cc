// A driver's habits in choosing addresses.
#include "device/sim/driver_addresses.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/units.h"

namespace ashlar::sim {
namespace {

constexpr uint64_t kEnd = uint64_t{1} << 40;

TEST(DriverAddressesTest, NewChunksLieBelowTheOthers) {
  DriverAddresses addresses(kMiB, kEnd);
  EXPECT_EQ(addresses.take(20 * kMiB), kEnd - 32 * kMiB);
  EXPECT_EQ(addresses.take(20 * kMiB), kEnd - 64 * kMiB);
  EXPECT_EQ(addresses.take(94 * kMiB), kEnd - 160 * kMiB);
}

TEST(DriverAddressesTest, WhatIsLeftOfAChunkIsUsedFromTheLowestPlaceOn) {
  DriverAddresses addresses(kMiB, kEnd);
  const uint64_t first = addresses.take(20 * kMiB);
  const uint64_t second = addresses.take(20 * kMiB);
  EXPECT_EQ(addresses.take(2 * kMiB), second + 20 * kMiB);
  EXPECT_EQ(addresses.take(2 * kMiB), second + 22 * kMiB);
  EXPECT_EQ(addresses.take(12 * kMiB), first + 20 * kMiB) << "10 MiB are too few";
}

TEST(DriverAddressesTest, AnEmptyChunkGoesBackAndItsPlaceIsUsedAgain) {
  DriverAddresses addresses(kMiB, kEnd);
  const uint64_t first = addresses.take(20 * kMiB);
  const uint64_t second = addresses.take(20 * kMiB);
  addresses.take(20 * kMiB);
  addresses.give_back(second);
  EXPECT_EQ(addresses.take(30 * kMiB), second) << "the highest gap that is wide enough";
  addresses.give_back(first);
  EXPECT_EQ(addresses.take(20 * kMiB), first);
}

TEST(DriverAddressesTest, NothingOverlapsWhateverComesAndGoes) {
  DriverAddresses addresses(kMiB, kEnd);
  Random random(3);
  std::map<uint64_t, size_t> live;
  for (int step = 0; step < 5000; ++step) {
    if (live.empty() || random.below(5) < 3) {
      const size_t bytes = (1 + random.below(60)) * kMiB;
      const uint64_t at = addresses.take(bytes);
      ASSERT_NE(at, 0U);
      const auto after = live.lower_bound(at);
      ASSERT_TRUE(after == live.end() || after->first >= at + bytes);
      ASSERT_TRUE(after == live.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= at);
      live[at] = bytes;
    } else {
      const auto chosen = std::next(live.begin(), static_cast<int>(random.below(live.size())));
      addresses.give_back(chosen->first);
      live.erase(chosen);
    }
  }
  for (const auto& [at, bytes] : live) addresses.give_back(at);
  EXPECT_EQ(addresses.take(kMiB), kEnd - 32 * kMiB) << "everything went back";
}

TEST(DriverAddressesTest, WhatDoesNotFitIsRefused) {
  DriverAddresses addresses(kEnd - 64 * kMiB, kEnd);
  EXPECT_EQ(addresses.take(65 * kMiB), 0U);
  EXPECT_NE(addresses.take(33 * kMiB), 0U);
  EXPECT_EQ(addresses.take(33 * kMiB), 0U);
  addresses.give_back(12345);
}

}  // namespace
}  // namespace ashlar::sim
