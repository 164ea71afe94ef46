// SPDX-License-Identifier: Apache-2.0
//
// Tests of the statistics: counters, peaks, totals and PyTorch's names.
#include <gmock/gmock.h>

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

class EngineStatsTest : public ClassicFixture {};

TEST_F(EngineStatsTest, CountsAllocatedAndActiveSeparately) {
  start();
  const StreamId other = busy_stream();
  Block* block = allocate(kMiB + 1);
  use_on(block, other);
  AllocatorStats seen = stats();
  EXPECT_EQ(seen.allocation.large_pool.current, 1);
  EXPECT_EQ(seen.allocated_bytes.all.current, static_cast<int64_t>(kMiB + 512));
  EXPECT_EQ(seen.requested_bytes.all.current, static_cast<int64_t>(kMiB + 1));
  EXPECT_EQ(seen.allocation.small_pool.current, 0);
  free(block);
  seen = stats();
  EXPECT_EQ(seen.allocated_bytes.all.current, 0);
  EXPECT_EQ(seen.active_bytes.all.current, static_cast<int64_t>(kMiB + 512));
  EXPECT_EQ(seen.requested_bytes.all.current, static_cast<int64_t>(kMiB + 1));
  finish(other);
  trim();
  seen = stats();
  EXPECT_EQ(seen.active_bytes.all.current, 0);
  EXPECT_EQ(seen.requested_bytes.all.current, 0);
  EXPECT_EQ(seen.reserved_bytes.all.current, 0);
}

TEST_F(EngineStatsTest, CountsInactiveSplitBlocks) {
  start();
  Block* first = allocate(4 * kMiB);
  EXPECT_EQ(stats().inactive_split.all.current, 1);
  EXPECT_EQ(stats().inactive_split_bytes.all.current, static_cast<int64_t>(16 * kMiB));
  Block* second = allocate(6 * kMiB);
  EXPECT_EQ(stats().inactive_split_bytes.all.current, static_cast<int64_t>(10 * kMiB));
  free(first);
  EXPECT_EQ(stats().inactive_split.all.current, 2);
  EXPECT_EQ(stats().inactive_split_bytes.all.current, static_cast<int64_t>(14 * kMiB));
  free(second);
  EXPECT_EQ(stats().inactive_split.all.current, 0);
  EXPECT_EQ(stats().inactive_split_bytes.all.current, 0);
}

TEST_F(EngineStatsTest, ExpandableBlocksAreNotInactiveSplit) {
  AllocatorOptions options;
  options.expandable_segments = true;
  start(options);
  Block* first = allocate(4 * kMiB);
  allocate(4 * kMiB);
  free(first);
  EXPECT_EQ(stats().inactive_split.all.current, 0);
  EXPECT_EQ(stats().inactive_split_bytes.all.increased, 0);
}

TEST_F(EngineStatsTest, CountsDeviceCalls) {
  start();
  cache(20 * kMiB);
  cache(512);
  trim();
  EXPECT_EQ(stats().device_allocs, 2);
  EXPECT_EQ(stats().device_frees, 2);
  EXPECT_EQ(stats().segment.all.increased, 2);
}

TEST_F(EngineStatsTest, CountsMappingsAsDeviceCalls) {
  AllocatorOptions options;
  options.expandable_segments = true;
  start(options);
  Block* block = allocate(20 * kMiB);
  allocate(20 * kMiB);
  free(block);
  trim();
  EXPECT_EQ(stats().device_allocs, 2);
  EXPECT_EQ(stats().device_frees, 1);
}

TEST_F(EngineStatsTest, ResetsPeaksToCurrent) {
  start();
  Block* block = allocate(4 * kMiB);
  cache(8 * kMiB);
  EXPECT_EQ(stats().allocated_bytes.all.peak, static_cast<int64_t>(12 * kMiB));
  engine_->reset_peak_stats();
  EXPECT_EQ(stats().allocated_bytes.all.peak, static_cast<int64_t>(4 * kMiB));
  EXPECT_EQ(stats().allocation.all.increased, 2) << "totals stay";
  free(block);
}

TEST_F(EngineStatsTest, ResetsTotalsAndCounters) {
  start({}, 64 * kMiB);
  Block* block = allocate(4 * kMiB);
  EXPECT_EQ(allocation_error(100 * kMiB).kind(), StatusKind::kOutOfMemory);
  engine_->reset_total_stats();
  const AllocatorStats seen = stats();
  EXPECT_EQ(seen.allocation.all.increased, 0);
  EXPECT_EQ(seen.allocation.all.current, 1);
  EXPECT_EQ(seen.ooms, 0);
  EXPECT_EQ(seen.alloc_retries, 0);
  EXPECT_EQ(seen.sync_all_streams, 0);
  EXPECT_EQ(seen.device_allocs, 0);
  free(block);
}

TEST_F(EngineStatsTest, UsesPyTorchNames) {
  AllocatorOptions options;
  options.max_split_bytes = 64 * kMiB;
  start(options);
  Block* block = allocate(100);
  std::map<std::string, int64_t> flat;
  for (const auto& [key, value] : stats().flatten()) flat[key] = value;
  EXPECT_EQ(flat.at("allocation.all.current"), 1);
  EXPECT_EQ(flat.at("allocated_bytes.small_pool.peak"), 512);
  EXPECT_EQ(flat.at("requested_bytes.all.allocated"), 100);
  EXPECT_EQ(flat.at("reserved_bytes.all.current"), static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(flat.at("inactive_split_bytes.large_pool.freed"), 0);
  EXPECT_EQ(flat.at("num_alloc_retries"), 0);
  EXPECT_EQ(flat.at("num_device_alloc"), 1);
  EXPECT_EQ(flat.at("max_split_size"), static_cast<int64_t>(64 * kMiB));
  free(block);
}

TEST_F(EngineStatsTest, CountsPerPoolAndStream) {
  start();
  const StreamId side = new_stream();
  route(kUserPool, side);
  Block* here = allocate(100);
  Block* there = allocate(3 * kMiB, side);
  AllocatorStats seen = stats();
  EXPECT_EQ(seen.pools.at({}).allocated_bytes.current, 512);
  EXPECT_EQ(seen.pools.at(kUserPool).requested_bytes.current, static_cast<int64_t>(3 * kMiB));
  EXPECT_EQ(seen.pools.at(kUserPool).reserved_bytes.large_pool.current,
            static_cast<int64_t>(20 * kMiB));
  EXPECT_EQ(seen.streams.at(side).allocation.current, 1);
  EXPECT_EQ(seen.streams.at(kDefaultStream).reserved_bytes.all.peak,
            static_cast<int64_t>(2 * kMiB));
  std::map<std::string, int64_t> flat;
  for (const auto& [key, value] : seen.flatten()) flat[key] = value;
  EXPECT_EQ(flat.at("reserved_bytes_by_private_pools.0_1.all.current"),
            static_cast<int64_t>(20 * kMiB));
  EXPECT_EQ(flat.at("pool.0_0.allocated_bytes.current"), 512);
  EXPECT_EQ(flat.at("stream." + std::to_string(side.value()) + ".allocation.allocated"), 1);

  free(there);
  engine_->reset_peak_stats();
  seen = stats();
  EXPECT_EQ(seen.pools.at(kUserPool).allocated_bytes.peak, 0);
  EXPECT_EQ(seen.streams.at(side).active_bytes.current, 0);
  end_route(kUserPool);
  must(engine_->release_pool(kUserPool));
  trim(kUserPool);
  EXPECT_FALSE(stats().pools.contains(kUserPool));
  EXPECT_EQ(stats().streams.at(side).reserved_bytes.all.current, 0);
  free(here);
}

}  // namespace
}  // namespace ashlar::classic
