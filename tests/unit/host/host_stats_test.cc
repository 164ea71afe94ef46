// SPDX-License-Identifier: Apache-2.0
//
// Tests of pinned-memory statistics: counters, peaks, resets and PyTorch's names.
#include "ashlar/host_stats.h"

#include <map>

#include "pinned_fixture.h"

namespace ashlar {
namespace {

using HostStatsTest = PinnedTest;

std::map<std::string, int64_t> flat(const HostStats& stats) {
  const auto pairs = stats.flatten();
  return {pairs.begin(), pairs.end()};
}

TEST_F(HostStatsTest, FreedBlockIsInactiveWithoutStreams) {
  PinnedBlock* block = allocate(5000);
  HostStats stats = pinned().stats();
  EXPECT_EQ(stats.active_requests.current, 1);
  EXPECT_EQ(stats.active_bytes.current, 8192);
  EXPECT_EQ(stats.requested_bytes.current, 5000);
  EXPECT_EQ(stats.allocations.current, 1);
  EXPECT_EQ(stats.allocated_bytes.current, 8192);
  free(block);
  stats = pinned().stats();
  EXPECT_EQ(stats.active_requests.current, 0);
  EXPECT_EQ(stats.active_bytes.current, 0);
  EXPECT_EQ(stats.requested_bytes.current, 0);
  EXPECT_EQ(stats.allocations.current, 1) << "it is cached";
  EXPECT_EQ(stats.allocated_bytes.current, 8192);
}

TEST_F(HostStatsTest, PendingBlockIsActiveUntilWorkFinishes) {
  const StreamId stream = busy_stream();
  free_used_on(allocate(kMiB), stream);
  EXPECT_EQ(pinned().stats().active_bytes.current, static_cast<int64_t>(kMiB));
  EXPECT_EQ(pinned().stats().pending_bytes.current, static_cast<int64_t>(kMiB));
  finish(stream);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(pinned().stats().active_bytes.current, 0);
  EXPECT_EQ(pinned().stats().pending_bytes.current, 0);
  EXPECT_EQ(pinned().stats().pending_bytes.peak, static_cast<int64_t>(kMiB));
}

// The two blocks have different sizes and are never active at the same time. A sum of the peaks of
// each size would count both.
TEST_F(HostStatsTest, PeaksAreNotSumsOverSizes) {
  free(allocate(kMiB));
  free(allocate(8 * kMiB));
  const HostStats stats = pinned().stats();
  EXPECT_EQ(stats.active_bytes.peak, static_cast<int64_t>(8 * kMiB));
  EXPECT_EQ(stats.active_requests.peak, 1);
  EXPECT_EQ(stats.allocated_bytes.peak, static_cast<int64_t>(9 * kMiB));
}

TEST_F(HostStatsTest, MeasuresHostTimeWithInjectedClock) {
  const auto delay = [&](DeviceCall call, int64_t delay_ns) {
    machine_->inject({.call = call,
                      .action = sim::FaultAction::kDelay,
                      .delay = std::chrono::nanoseconds(delay_ns)});
  };
  delay(DeviceCall::kAllocateHost, 7000);
  PinnedBlock* first = allocate(kMiB);
  machine_->clear_faults();
  delay(DeviceCall::kAllocateHost, 3000);
  free(allocate(2 * kMiB));
  free(first);
  delay(DeviceCall::kFreeHost, 5000);
  EXPECT_TRUE(pinned().trim().ok());
  const HostStats stats = pinned().stats();
  EXPECT_EQ(stats.host_alloc_time.count, 2);
  EXPECT_EQ(stats.host_alloc_time.total_ns, 10'000);
  EXPECT_EQ(stats.host_alloc_time.max_ns, 7000);
  EXPECT_EQ(stats.host_alloc_time.min_ns, 3000);
  EXPECT_EQ(stats.host_free_time.total_ns, 5000);
  EXPECT_EQ(stats.host_free_time.count, 2);
  EXPECT_EQ(stats.host_allocs, 2);
  EXPECT_EQ(stats.host_frees, 2);
}

TEST_F(HostStatsTest, CountsCreatedBlocksBySizeClass) {
  allocate(kMiB);
  free(allocate(kMiB - 1));
  allocate(kMiB);
  free(allocate(5000));
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(pinned().stats().host_frees, 1);
  const std::vector<SizeClassCount> classes = pinned().stats().size_classes;
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].class_bytes, 8 * kKiB);
  EXPECT_EQ(classes[0].count, 1) << "released blocks still count";
  EXPECT_EQ(classes[1].class_bytes, kMiB);
  EXPECT_EQ(classes[1].count, 2) << "the third was served by the cache";
}

TEST_F(HostStatsTest, ResetsPeaksAndTotalsSeparately) {
  PinnedBlock* kept = allocate(kMiB);
  free(allocate(2 * kMiB));
  EXPECT_TRUE(pinned().trim().ok());
  pinned().reset_peak_stats();
  HostStats stats = pinned().stats();
  EXPECT_EQ(stats.active_bytes.peak, static_cast<int64_t>(kept->bytes()));
  EXPECT_FALSE(stats.host_alloc_time.has_extremes);
  EXPECT_EQ(stats.active_requests.increased, 2);
  pinned().reset_total_stats();
  stats = pinned().stats();
  EXPECT_EQ(stats.active_requests.increased, 0);
  EXPECT_EQ(stats.active_requests.current, 1);
  EXPECT_EQ(stats.host_allocs, 0);
  EXPECT_EQ(stats.host_frees, 0);
  EXPECT_EQ(stats.host_alloc_time.count, 0);
  EXPECT_TRUE(stats.size_classes.empty());
  free(kept);
  EXPECT_EQ(pinned().stats().active_requests.decreased, 1);
  EXPECT_TRUE(pinned().validate().ok());
}

TEST_F(HostStatsTest, FlattenUsesPyTorchNamesAndMicroseconds) {
  machine_->inject({.call = DeviceCall::kAllocateHost,
                    .action = sim::FaultAction::kDelay,
                    .delay = std::chrono::microseconds(12)});
  free(allocate(kMiB));
  std::map<std::string, int64_t> values = flat(pinned().stats());
  EXPECT_EQ(values.at("active_requests.current"), 0);
  EXPECT_EQ(values.at("active_requests.peak"), 1);
  EXPECT_EQ(values.at("active_bytes.allocated"), static_cast<int64_t>(kMiB));
  EXPECT_EQ(values.at("active_bytes.freed"), static_cast<int64_t>(kMiB));
  EXPECT_EQ(values.at("allocations.current"), 1);
  EXPECT_EQ(values.at("allocated_bytes.current"), static_cast<int64_t>(kMiB));
  EXPECT_EQ(values.at("num_host_alloc"), 1);
  EXPECT_EQ(values.at("num_host_free"), 0);
  EXPECT_EQ(values.at("host_alloc_time.total"), 12);
  EXPECT_EQ(values.at("host_alloc_time.max"), 12);
  EXPECT_EQ(values.at("host_alloc_time.min"), 12);
  EXPECT_EQ(values.at("host_alloc_time.avg"), 12);
  EXPECT_EQ(values.at("host_alloc_time.count"), 1);
  EXPECT_EQ(values.at("host_free_time.avg"), 0);
  EXPECT_EQ(values.at("bucket_allocation.1048576"), 1);
}

TEST(DurationStatTest, ResetRestartsExtremes) {
  DurationStat time;
  time.record(5);
  time.record(9);
  time.reset_peak();
  time.record(7);
  EXPECT_EQ(time.min_ns, 7);
  EXPECT_EQ(time.max_ns, 7);
  EXPECT_EQ(time.total_ns, 21);
  EXPECT_EQ(time.count, 3);
}

}  // namespace
}  // namespace ashlar
