// SPDX-License-Identifier: Apache-2.0
//
// Tests of the public Allocator: buffers, plain addresses and errors.
#include "ashlar/allocator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <limits>
#include <thread>

#include "sim_fixture.h"

namespace ashlar {
namespace {

class AllocatorTest : public SimFixture {
 protected:
  AllocatorTest() {
    machine_options_.capacity_bytes = 256 * kMiB;
    machine_options_.backing = sim::Backing::kMemory;
    make_machine();
  }
};

TEST_F(AllocatorTest, FreesBufferAtEndOfScope) {
  Allocator allocator(device());
  DeviceAddress address;
  {
    const Buffer buffer = allocator.allocate(100);
    EXPECT_TRUE(buffer);
    EXPECT_EQ(buffer.bytes(), 100U);
    address = buffer.address();
    EXPECT_EQ(allocator.stats().allocation.all.current, 1);
  }
  EXPECT_EQ(allocator.stats().allocation.all.current, 0);
  EXPECT_EQ(allocator.allocate(100).address(), address);
}

TEST_F(AllocatorTest, TrimToReportsBytesAndWaitsOnlyIfRequested) {
  Allocator allocator(device(), parse_options("engine:classic"));
  const StreamId stream = *device().create_stream();
  allocator.allocate(40 << 20);
  allocator.allocate(30 << 20, stream);
  EXPECT_EQ(allocator.trim_to(35 << 20), 40U << 20);
  {
    const Buffer buffer = allocator.allocate(30 << 20, stream);
    ASSERT_TRUE(machine_->pause_stream(DeviceIndex(0), stream).ok());
    ASSERT_TRUE(device().fill(buffer.address(), 1, buffer.bytes(), stream).ok());
  }
  EXPECT_EQ(allocator.trim_to(0), 0U) << "the device still uses it";
  ASSERT_TRUE(machine_->resume_stream(DeviceIndex(0), stream).ok());
  EXPECT_EQ(allocator.trim_to(0, {.wait = TrimWait::kForWork}), 30U << 20);
  EXPECT_EQ(allocator.stats().reserved_bytes.all.current, 0);
}

TEST_F(AllocatorTest, DeviceWorkAccessesTheMemory) {
  for (const char* settings :
       {"engine:paged", "engine:classic", "engine:classic,expandable_segments:True"}) {
    Allocator allocator(device(), parse_options(settings));
    const Buffer buffer = allocator.allocate(4096);
    ASSERT_TRUE(device().fill(buffer.address(), 7, buffer.bytes(), kDefaultStream).ok());
    std::vector<uint8_t> bytes(4096);
    ASSERT_TRUE(device().copy_to_host(bytes.data(), buffer.address(), 4096, kDefaultStream).ok());
    ASSERT_TRUE(device().synchronize_stream(kDefaultStream).ok());
    EXPECT_EQ(bytes, std::vector<uint8_t>(4096, 7));
  }
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(AllocatorTest, MovesBufferWithItsMemory) {
  Allocator allocator(device());
  Buffer first = allocator.allocate(512);
  const DeviceAddress address = first.address();
  Buffer second = std::move(first);
  EXPECT_EQ(second.address(), address);
  Buffer third = allocator.allocate(kMiB);
  third = std::move(second);
  EXPECT_EQ(third.address(), address);
  EXPECT_EQ(allocator.stats().allocation.all.current, 1) << "its previous memory must be freed";
  Buffer& same = third;
  third = std::move(same);
  EXPECT_EQ(third.address(), address);
  third.reset();
  third.reset();
  EXPECT_FALSE(third);
  EXPECT_EQ(allocator.stats().allocation.all.current, 0);
}

TEST_F(AllocatorTest, UncachedBlocksAreDeviceAllocations) {
  Allocator allocator(device(), parse_options("caching:False"));
  {
    const Buffer one = allocator.allocate(1000);
    const Buffer two = allocator.allocate(3 * kMiB);
    EXPECT_EQ(allocator.stats().reserved_bytes.all.current, static_cast<int64_t>(1024 + 3 * kMiB));
    EXPECT_EQ(device().describe(one.address())->range.begin, one.address());
    EXPECT_EQ(device().describe(two.address())->range.begin, two.address());
  }
  EXPECT_EQ(used_bytes(), 0U);
  EXPECT_EQ(allocator.statistics().largest_cached_bytes(), 0U);

  allocator.set_caching(true);
  allocator.allocate(1000).reset();
  EXPECT_EQ(allocator.statistics().largest_cached_bytes(), 2 * kMiB);
  allocator.set_caching(false);
  EXPECT_FALSE(allocator.is_caching());
  const Buffer beside = allocator.allocate(1000);
  EXPECT_GT(used_bytes(), 2 * kMiB) << "cached memory is not used";
}

TEST_F(AllocatorTest, UncachedBlockWaitsForOtherStreams) {
  Allocator allocator(device(), parse_options("caching:False"));
  const StreamId side = *device().create_stream();
  ASSERT_TRUE(machine_->pause_stream(DeviceIndex(0), side).ok());
  ASSERT_TRUE(device().call_host(side, [] {}).ok());
  Buffer buffer = allocator.allocate(kMiB);
  buffer.record_stream(side);
  buffer.reset();
  EXPECT_EQ(used_bytes(), kMiB);
  ASSERT_TRUE(machine_->resume_stream(DeviceIndex(0), side).ok());
  ASSERT_TRUE(device().synchronize_stream(side).ok());
  allocator.trim();
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(AllocatorTest, UncachedRequestReleasesTheCache) {
  Allocator allocator(device(), AllocatorOptions{});
  allocator.allocate(200 * kMiB).reset();
  allocator.set_caching(false);
  const Buffer buffer = allocator.allocate(100 * kMiB);
  EXPECT_EQ(used_bytes(), 100 * kMiB);
  EXPECT_EQ(allocator.stats().alloc_retries, 1);
}

TEST_F(AllocatorTest, ParsesAndFormatsOptions) {
  const AllocatorOptions options = parse_options("expandable_segments:True");
  EXPECT_TRUE(options.expandable_segments);
  EXPECT_EQ(format_options(options), "expandable_segments:True");
  EXPECT_THROW(parse_options("expandable_segments:yes"), InvalidArgument);
}

TEST_F(AllocatorTest, ReportsExpandableSegments) {
  Allocator allocator(device(), parse_options("engine:classic,expandable_segments:True"));
  const Buffer small = allocator.allocate(100);
  const std::vector<ExpandableSegmentStats> uses = allocator.statistics().expandable_segments();
  ASSERT_EQ(uses.size(), 1U);
  EXPECT_TRUE(uses[0].is_small);
  EXPECT_EQ(uses[0].mapped_bytes, 2 * kMiB);
  EXPECT_TRUE(uses[0].reserved.contains(small.address()));
}

TEST_F(AllocatorTest, RestoresPoolState) {
  Allocator allocator(device(), AllocatorOptions{});
  const PoolId pool = allocator.pools().create();
  allocator.pools().begin_routing(pool, [](StreamId) { return true; });
  Buffer kept = allocator.allocate(3000);
  const DeviceAddress kept_at = kept.address();
  const PoolCheckpoint then = allocator.pools().checkpoint(pool);
  Buffer later = allocator.allocate(5000);
  const DeviceAddress raw = allocator.allocate_raw(700);
  allocator.pools().end_routing(pool);

  RestoredPool restored = allocator.pools().restore(then);
  EXPECT_EQ(restored.freed.size(), 3U);
  ASSERT_EQ(restored.allocated.size(), 1U);
  EXPECT_EQ(restored.allocated[0].address(), kept_at);
  EXPECT_EQ(restored.allocated[0].bytes(), 3000U);
  kept.release();
  later.release();
  EXPECT_THROW(allocator.free_raw(raw), InvalidArgument);
  EXPECT_EQ(allocator.pools().live_addresses(pool), std::vector<DeviceAddress>{kept_at});
  EXPECT_THROW(allocator.pools().live_addresses({0, 99}), InvalidArgument);
}

TEST_F(AllocatorTest, ZeroBytesYieldAnEmptyBuffer) {
  Allocator allocator(device());
  Buffer nothing = allocator.allocate(0);
  EXPECT_FALSE(nothing);
  EXPECT_TRUE(nothing.address().is_null());
  EXPECT_THROW(nothing.record_stream(kDefaultStream), InvalidArgument);
  EXPECT_TRUE(allocator.allocate_raw(0).is_null());
  EXPECT_NO_THROW(allocator.free_raw({}));
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(AllocatorTest, BufferWaitsForRecordedStream) {
  Allocator allocator(device());
  const StreamId other = *device().create_stream();
  Buffer buffer = allocator.allocate(20 * kMiB);
  const DeviceAddress address = buffer.address();
  ASSERT_TRUE(machine_->pause_stream(DeviceIndex(0), other).ok());
  ASSERT_TRUE(device().fill(address, 1, 512, other).ok());
  buffer.record_stream(other);
  buffer.reset();
  const Buffer meanwhile = allocator.allocate(20 * kMiB);
  EXPECT_NE(meanwhile.address(), address);
  ASSERT_TRUE(machine_->resume_stream(DeviceIndex(0), other).ok());
  ASSERT_TRUE(device().synchronize_stream(other).ok());
  EXPECT_EQ(allocator.allocate(20 * kMiB).address(), address);
}

// --- plain addresses

TEST_F(AllocatorTest, AllocatesAndFreesPlainAddresses) {
  Allocator allocator(device());
  const DeviceAddress address = allocator.allocate_raw(512);
  allocator.record_stream(address, *device().create_stream());
  allocator.free_raw(address);
  EXPECT_EQ(allocator.stats().allocation.all.current, 0);
}

TEST_F(AllocatorTest, RejectsFreeOfUnknownAddress) {
  Allocator allocator(device());
  const DeviceAddress address = allocator.allocate_raw(1024);
  const Buffer buffer = allocator.allocate(512);
  const int64_t before = allocator.stats().allocated_bytes.all.current;
  EXPECT_THROW(allocator.free_raw(address + 512), InvalidArgument) << "inside of one";
  EXPECT_THROW(allocator.free_raw(DeviceAddress(4096)), InvalidArgument) << "foreign";
  EXPECT_THROW(allocator.free_raw(buffer.address()), InvalidArgument)
      << "the address belongs to a Buffer";
  EXPECT_THROW(allocator.record_stream(address + 512, kDefaultStream), InvalidArgument);
  EXPECT_EQ(allocator.stats().allocated_bytes.all.current, before);
  allocator.free_raw(address);
  EXPECT_THROW(allocator.free_raw(address), InvalidArgument) << "twice";
  EXPECT_THROW(allocator.record_stream(address, kDefaultStream), InvalidArgument);
  EXPECT_EQ(allocator.stats().allocation.all.current, 1);
}

TEST_F(AllocatorTest, RejectsFreeOfBufferAddress) {
  Allocator allocator(device());
  const DeviceAddress address = allocator.allocate_raw(1024);
  allocator.free_raw(address);
  const Buffer next = allocator.allocate(1024);
  ASSERT_EQ(next.address(), address);
  EXPECT_THROW(allocator.free_raw(address), InvalidArgument);
  EXPECT_EQ(allocator.stats().allocation.all.current, 1);
}

using AllocatorConcurrencyTest = AllocatorTest;

TEST_F(AllocatorConcurrencyTest, ConcurrentFreesOfAnAddressSucceedOnce) {
  for (const EngineKind engine : {EngineKind::kClassic, EngineKind::kPaged}) {
    AllocatorOptions options;
    options.engine = engine;
    Allocator allocator(device(), options);
    for (int round = 0; round < 200; ++round) {
      const DeviceAddress address = allocator.allocate_raw(512);
      std::atomic<int> succeeded{0};
      std::latch start(3);
      const auto free = [&] {
        start.arrive_and_wait();
        try {
          allocator.free_raw(address);
          ++succeeded;
        } catch (const InvalidArgument&) {
        }
      };
      std::vector<std::thread> threads;
      for (int i = 0; i < 3; ++i) threads.emplace_back(free);
      for (std::thread& thread : threads) thread.join();
      ASSERT_EQ(succeeded, 1);
      ASSERT_EQ(allocator.stats().allocation.all.current, 0);
    }
  }
}

TEST_F(AllocatorTest, RejectsAddressOfAnotherAllocator) {
  Allocator first(device());
  Allocator second(device());
  const DeviceAddress address = first.allocate_raw(512);
  EXPECT_THROW(second.free_raw(address), InvalidArgument);
  first.free_raw(address);
}

// --- failures

TEST_F(AllocatorTest, OutOfMemoryIsABadAllocWithReport) {
  Allocator allocator(device());
  for (size_t bytes : {kGiB, (size_t{1} << 60) - 1, size_t{1} << 60, SIZE_MAX}) {
    SCOPED_TRACE(bytes);
    EXPECT_THROW(static_cast<void>(allocator.allocate(bytes)), std::bad_alloc);
    try {
      static_cast<void>(allocator.allocate_raw(bytes));
      FAIL();
    } catch (const OutOfMemory& error) {
      EXPECT_TRUE(error.status().is_out_of_memory());
      EXPECT_NE(std::string(error.what()).find("tried to allocate"), std::string::npos);
    }
  }
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(AllocatorTest, DeviceFaultIsADeviceError) {
  Allocator classic(device(), parse_options("engine:classic"));
  machine_->inject({.call = DeviceCall::kAllocate});
  EXPECT_THROW(static_cast<void>(classic.allocate(512)), DeviceError);
  EXPECT_NO_THROW(static_cast<void>(classic.allocate(512)));
  Allocator paged(device(), parse_options("engine:paged"));
  machine_->inject({.call = DeviceCall::kCreate});
  EXPECT_THROW(static_cast<void>(paged.allocate(512)), DeviceError);
  EXPECT_NO_THROW(static_cast<void>(paged.allocate(512)));
}

// The paged engine maps memory instead of allocating it.
TEST_F(AllocatorTest, UsesPagedEngineByDefault) {
  const auto calls = [&](DeviceCall call) {
    return machine_->costs(DeviceIndex(0)).count_of(call);
  };
  Allocator by_default(device(), AllocatorOptions{});
  static_cast<void>(by_default.allocate(3 * kMiB));
  EXPECT_EQ(calls(DeviceCall::kAllocate), 0U);
  EXPECT_GT(calls(DeviceCall::kMap), 0U);
  Allocator classic(device(), parse_options("engine:classic"));
  static_cast<void>(classic.allocate(3 * kMiB));
  EXPECT_EQ(calls(DeviceCall::kAllocate), 1U);
}

TEST_F(AllocatorTest, NextCallReportsDestructorErrors) {
  Allocator allocator(device());
  {
    Buffer buffer = allocator.allocate(512);
    buffer.record_stream(*device().create_stream());
    machine_->inject({.call = DeviceCall::kRecordEvent});
  }
  EXPECT_THROW(allocator.trim(), DeviceError);
  EXPECT_NO_THROW(allocator.trim());
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(AllocatorTest, RejectsInvalidFraction) {
  Allocator allocator(device());
  allocator.set_memory_fraction(0.5);
  for (double fraction : {-0.25, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(allocator.set_memory_fraction(fraction), InvalidArgument);
  }
  EXPECT_EQ(allocator.memory_fraction(), 0.5);
}

TEST_F(AllocatorTest, RejectsInvalidOptions) {
  const auto refuses = [&](const std::function<void(AllocatorOptions&)>& change) {
    AllocatorOptions options;
    change(options);
    EXPECT_THROW(Allocator(device(), options), InvalidArgument);
  };
  refuses([](AllocatorOptions& options) { options.memory_fraction = -1; });
  refuses([](AllocatorOptions& options) { options.memory_fraction = 1.5; });
  refuses([](AllocatorOptions& options) { options.garbage_collection_threshold = -0.5; });
  refuses([](AllocatorOptions& options) { options.large_segment_bytes = 0; });
  refuses([](AllocatorOptions& options) { options.max_split_bytes = 1; });
}

// --- pools

TEST_F(AllocatorTest, NumbersUserAndCapturePoolsSeparately) {
  Allocator allocator(device());
  EXPECT_EQ(allocator.pools().create(), (PoolId{0, 1}));
  EXPECT_EQ(allocator.pools().create(), (PoolId{0, 2}));
  EXPECT_EQ(allocator.pools().create_for_capture(), (PoolId{1, 0}));
  EXPECT_EQ(allocator.pools().use_count({0, 2}), 1);
  EXPECT_THROW(static_cast<void>(allocator.pools().use_count({0, 3})), InvalidArgument);
}

TEST_F(AllocatorTest, RoutesToAndReleasesPool) {
  Allocator allocator(device());
  const PoolId pool = allocator.pools().create();
  EXPECT_THROW(allocator.pools().begin_routing(pool, nullptr), InvalidArgument);
  allocator.pools().begin_routing(pool, [](StreamId) { return true; });
  EXPECT_THROW(allocator.pools().begin_routing(pool, [](StreamId) { return true; }),
               InvalidArgument);
  static_cast<void>(allocator.allocate(20 * kMiB));
  allocator.pools().end_routing(pool);
  EXPECT_THROW(allocator.pools().end_routing(pool), InvalidArgument);
  allocator.pools().release(pool);
  allocator.pools().release(pool);
  EXPECT_THROW(allocator.pools().release(pool), InvalidArgument);
  EXPECT_EQ(used_bytes(), 20 * kMiB);
  allocator.pools().trim(pool);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(AllocatorTest, TrimIgnoresDestroyedAndRejectsUnknownPools) {
  Allocator allocator(device());
  const PoolId pool = allocator.pools().create();
  allocator.pools().release(pool);
  allocator.trim();
  allocator.pools().trim(pool);
  EXPECT_THROW(allocator.pools().trim(PoolId{0, pool.user + 1}), InvalidArgument);
  EXPECT_THROW(allocator.pools().trim(PoolId{1, 0}), InvalidArgument);
}

TEST_F(AllocatorTest, DestructorReleasesEverything) {
  {
    Allocator allocator(device());
    static_cast<void>(allocator.allocate_raw(30 * kMiB));
    static_cast<void>(allocator.allocate_raw(512));
  }
  EXPECT_EQ(used_bytes(), 0U);
}

}  // namespace
}  // namespace ashlar
