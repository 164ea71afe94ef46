// SPDX-License-Identifier: Apache-2.0
//
// Tests the driver's stream-ordered pool: allocation, reuse, statistics and trimming.
#include <algorithm>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {
namespace {

// Larger than the chunks in which drivers grow their pools, which are 32 MiB on CUDA.
constexpr size_t kLargeBytes = size_t{64} << 20;

}  // namespace

TEST_P(PoolContract, PoolMemoryIsImmediatelyUsableInItsStream) {
  constexpr size_t kBytes = 100'000;
  const StreamId stream = create_stream();
  uint8_t* host = allocate_pinned_bytes(kBytes);
  StreamGate& gate = block_stream(stream);
  const DeviceAddress address = allocate_async(kBytes, stream);
  require_ok(device().fill(address, 12, kBytes, stream));
  require_ok(device().copy_to_host(host, address, kBytes, stream));
  EXPECT_TRUE(gate.is_closed()) << "a call waited for the stream";
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(Bytes(host, host + kBytes), Bytes(kBytes, 12));
}

TEST_P(PoolContract, PoolAllocationsDoNotOverlap) {
  constexpr size_t kBytes = 3000;
  const StreamId stream = create_stream();
  std::vector<DeviceAddress> addresses;
  for (uint8_t i = 0; i < 16; ++i) {
    addresses.push_back(allocate_async(kBytes, stream));
    require_ok(device().fill(addresses.back(), i, kBytes, stream));
  }
  require_ok(device().synchronize_stream(stream));
  for (uint8_t i = 0; i < 16; ++i) EXPECT_EQ(read_back(addresses[i], kBytes), Bytes(kBytes, i));
}

TEST_P(PoolContract, DescribeReportsPoolMemory) {
  const StreamId stream = create_stream();
  const DeviceAddress address = allocate_async(granule_bytes(), stream);
  require_ok(device().synchronize_stream(stream));
  const AddressDescription found = require_ok(device().describe(address + 1));
  EXPECT_EQ(found.kind, MemoryKind::kDevice);
  EXPECT_EQ(found.device, properties().index);
  EXPECT_TRUE(found.range.contains({address, granule_bytes()}));
}

TEST_P(PoolContract, AllocateAsyncRejectsZeroBytes) {
  const StreamId stream = create_stream();
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().allocate_async(0, stream));
}

TEST_P(PoolContract, AllocateAsyncBeyondTheCapacityIsOutOfMemory) {
  const StreamId stream = create_stream();
  const size_t used = require_ok(device().driver_pool_stats()).used_bytes;
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_out_of_memory(device().allocate_async(properties().capacity_bytes * 2, stream));
    expect_out_of_memory(device().allocate_async(size_t{1} << 62, stream));
    expect_out_of_memory(device().allocate_async(SIZE_MAX, stream));
  }
  EXPECT_EQ(require_ok(device().driver_pool_stats()).used_bytes, used);
  const DeviceAddress address = allocate_async(4096, stream);
  require_ok(device().synchronize_stream(stream));
  EXPECT_TRUE(is_usable(address)) << "the device must still work";
}

TEST_P(PoolContract, FullDeviceIsOutOfMemoryUntilAnAsyncFree) {
  const StreamId stream = create_stream();
  const size_t step = properties().capacity_bytes / 8;
  std::vector<DeviceAddress> taken;
  Result<DeviceAddress> last = device().allocate_async(step, stream);
  while (last.ok() && taken.size() <= 8) {
    taken.push_back(*last);
    last = device().allocate_async(step, stream);
  }
  expect_out_of_memory(last);
  EXPECT_FALSE(taken.empty());
  for (const DeviceAddress address : taken) EXPECT_TRUE(ok(device().free_async(address, stream)));
  require_ok(device().synchronize_stream(stream));
  const DeviceAddress again = allocate_async(step, stream);
  require_ok(device().synchronize_stream(stream));
  EXPECT_TRUE(is_usable(again));
}

// --- order of frees and reuse

TEST_P(PoolContract, ReusesFreedMemoryInOrderInTheSameStream) {
  const size_t bytes = granule_bytes();
  const StreamId stream = create_stream();
  uint8_t* first = allocate_pinned_bytes(bytes);
  uint8_t* second = allocate_pinned_bytes(bytes);
  StreamGate& gate = block_stream(stream);
  const DeviceAddress before = require_ok(device().allocate_async(bytes, stream));
  require_ok(device().fill(before, 1, bytes, stream));
  require_ok(device().copy_to_host(first, before, bytes, stream));
  require_ok(device().free_async(before, stream));
  const DeviceAddress after = allocate_async(bytes, stream);
  require_ok(device().fill(after, 2, bytes, stream));
  require_ok(device().copy_to_host(second, after, bytes, stream));
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(Bytes(first, first + bytes), Bytes(bytes, 1));
  EXPECT_EQ(Bytes(second, second + bytes), Bytes(bytes, 2));
}

TEST_P(PoolContract, OtherStreamsDoNotGetMemoryBeforeItsFreeRuns) {
  const size_t bytes = granule_bytes();
  const StreamId user = create_stream();
  const StreamId busy_stream = create_stream();
  uint8_t* seen = allocate_pinned_bytes(bytes);
  const DeviceAddress address = require_ok(device().allocate_async(bytes, user));
  require_ok(device().fill(address, 1, bytes, user));
  StreamGate& gate = block_stream(user);
  require_ok(device().copy_to_host(seen, address, bytes, user));
  require_ok(device().free_async(address, user));
  std::vector<DeviceAddress> taken;
  for (int i = 0; i < 4; ++i) {
    taken.push_back(allocate_async(bytes, busy_stream));
    require_ok(device().fill(taken.back(), 0xff, bytes, busy_stream));
  }
  EXPECT_TRUE(stays_busy(user));
  gate.open();
  require_ok(device().synchronize_stream(user));
  EXPECT_EQ(Bytes(seen, seen + bytes), Bytes(bytes, 1)) << "it was reused before the free ran";
  require_ok(device().synchronize_stream(busy_stream));
}

TEST_P(PoolContract, MemoryMayBeFreedInAnotherStream) {
  const size_t bytes = granule_bytes();
  const StreamId first = create_stream();
  const StreamId second = create_stream();
  const EventId used = create_event();
  const DeviceAddress address = allocate_async(bytes, first);
  require_ok(device().fill(address, 1, bytes, first));
  require_ok(device().record_event(used, first));
  require_ok(device().wait_event(second, used));
  free_async_now(address, second);
  require_ok(device().synchronize_stream(second));
  expect_invalid_argument(device().free_async(address, first));
}

// --- invalid arguments

TEST_P(PoolContract, FreeAsyncRejectsOtherAddresses) {
  const StreamId stream = create_stream();
  const DeviceAddress plain = allocate(granule_bytes());
  const DeviceAddress address = allocate_async(granule_bytes(), stream);
  require_ok(device().synchronize_stream(stream));
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free_async({}, stream));
    expect_invalid_argument(device().free_async(address + 1, stream));
    expect_invalid_argument(device().free_async(plain, stream));
    expect_invalid_argument(device().free_async(unknown_id<DeviceAddress>(), stream));
    if (has_other() && other().properties().has_stream_ordered_pool) {
      expect_error(StatusKind::kInvalidArgument, other(),
                   other().free_async(address, kDefaultStream));
    }
  }
  EXPECT_TRUE(is_usable(plain));
  EXPECT_TRUE(is_usable(address));
}

TEST_P(PoolContract, FreeRejectsPoolMemory) {
  const StreamId stream = create_stream();
  const DeviceAddress address = allocate_async(granule_bytes(), stream);
  require_ok(device().synchronize_stream(stream));
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free(address));
  }
  EXPECT_TRUE(is_usable(address));
}

TEST_P(PoolContract, FreeAsyncRejectsADoubleFreeBeforeTheFirstRuns) {
  const StreamId stream = create_stream();
  const DeviceAddress address = allocate_async(granule_bytes(), stream);
  StreamGate& gate = block_stream(stream);
  free_async_now(address, stream);
  expect_invalid_argument(device().free_async(address, stream));
  expect_invalid_argument(device().free_async(address, kDefaultStream));
  EXPECT_TRUE(gate.is_closed());
  gate.open();
  require_ok(device().synchronize_stream(stream));
  expect_invalid_argument(device().free_async(address, stream));
}

TEST_P(PoolContract, WorkRejectsFreedPoolMemory) {
  const StreamId stream = create_stream();
  const DeviceAddress address = allocate_async(granule_bytes(), stream);
  free_async_now(address, stream);
  require_ok(device().synchronize_stream(stream));
  expect_invalid_argument(device().fill(address, 1, 16, stream));
}

TEST_P(PoolContract, FreeAsyncRejectsAnUnknownStream) {
  if (!properties().checks_stream_ids) GTEST_SKIP() << "the device does not check stream ids";
  const StreamId stream = create_stream();
  const DeviceAddress address = allocate_async(granule_bytes(), stream);
  require_ok(device().synchronize_stream(stream));
  expect_invalid_argument(device().free_async(address, unknown_id<StreamId>()));
  EXPECT_TRUE(is_usable(address));
}

// --- statistics

TEST_P(PoolContract, PoolStatsCountAllocatedBytes) {
  const StreamId stream = create_stream();
  const DriverPoolStats before = require_ok(device().driver_pool_stats());
  const size_t free_before = free_bytes();
  const DeviceAddress address = allocate_async(kLargeBytes, stream);
  require_ok(device().synchronize_stream(stream));
  const DriverPoolStats during = require_ok(device().driver_pool_stats());
  EXPECT_EQ(during.used_bytes, before.used_bytes + kLargeBytes);
  EXPECT_GE(during.reserved_bytes, during.used_bytes);
  EXPECT_GE(during.used_peak_bytes, during.used_bytes);
  EXPECT_GE(during.reserved_peak_bytes, during.reserved_bytes);
  EXPECT_LE(free_bytes(), free_before - kLargeBytes + GetParam().accounting_slack_bytes);
  free_async_now(address, stream);
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(require_ok(device().driver_pool_stats()).used_bytes, before.used_bytes);
}

TEST_P(PoolContract, PoolKeepsNothingByDefaultAfterSynchronization) {
  const StreamId stream = create_stream();
  const size_t before = free_bytes();
  free_async_now(allocate_async(kLargeBytes, stream), stream);
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(require_ok(device().driver_pool_stats()).reserved_bytes, 0U);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before));
}

TEST_P(PoolContract, PoolKeepsUnusedMemoryUpToTheThreshold) {
  const StreamId stream = create_stream();
  require_ok(device().set_pool_threshold(SIZE_MAX));
  free_async_now(allocate_async(kLargeBytes, stream), stream);
  require_ok(device().synchronize_stream(stream));
  const size_t kept = require_ok(device().driver_pool_stats()).reserved_bytes;
  EXPECT_GE(kept, kLargeBytes);
  free_async_now(allocate_async(kLargeBytes, stream), stream);
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(require_ok(device().driver_pool_stats()).reserved_bytes, kept)
      << "cached memory was not reused";
  require_ok(device().set_pool_threshold(0));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(require_ok(device().driver_pool_stats()).reserved_bytes, 0U);
}

TEST_P(PoolContract, TrimReleasesOnlyUnusedMemory) {
  const StreamId stream = create_stream();
  require_ok(device().set_pool_threshold(SIZE_MAX));
  const DeviceAddress used = allocate_async(kLargeBytes, stream);
  const DeviceAddress unused = allocate_async(kLargeBytes, stream);
  require_ok(device().fill(used, 45, 4096, stream));
  free_async_now(unused, stream);
  require_ok(device().synchronize_stream(stream));
  const DriverPoolStats before = require_ok(device().driver_pool_stats());
  EXPECT_GE(before.reserved_bytes, 2 * kLargeBytes);
  require_ok(device().trim_pool(before.reserved_bytes));
  EXPECT_EQ(require_ok(device().driver_pool_stats()).reserved_bytes, before.reserved_bytes)
      << "nothing to trim";
  require_ok(device().trim_pool(0));
  const DriverPoolStats after = require_ok(device().driver_pool_stats());
  EXPECT_LT(after.reserved_bytes, before.reserved_bytes);
  EXPECT_GE(after.reserved_bytes, after.used_bytes);
  EXPECT_EQ(after.used_bytes, before.used_bytes);
  EXPECT_EQ(read_back(used, 4096), Bytes(4096, 45));
}

TEST_P(PoolContract, TrimLeavesAtMostTheRequestedBytes) {
  const StreamId stream = create_stream();
  require_ok(device().set_pool_threshold(SIZE_MAX));
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 4; ++i) all.push_back(allocate_async(kLargeBytes, stream));
  for (const DeviceAddress address : all) free_async_now(address, stream);
  require_ok(device().synchronize_stream(stream));
  ASSERT_GE(require_ok(device().driver_pool_stats()).reserved_bytes, 4 * kLargeBytes);
  require_ok(device().trim_pool(2 * kLargeBytes));
  EXPECT_LE(require_ok(device().driver_pool_stats()).reserved_bytes, 2 * kLargeBytes);
  require_ok(device().trim_pool(0));
  EXPECT_EQ(require_ok(device().driver_pool_stats()).reserved_bytes, 0U);
}

TEST_P(PoolContract, PeaksPersistUntilReset) {
  const StreamId stream = create_stream();
  free_async_now(allocate_async(kLargeBytes, stream), stream);
  require_ok(device().synchronize_stream(stream));
  const DeviceAddress small = allocate_async(granule_bytes(), stream);
  const DriverPoolStats high = require_ok(device().driver_pool_stats());
  EXPECT_GE(high.used_peak_bytes, kLargeBytes) << "later use must not lower the peak";
  EXPECT_GE(high.reserved_peak_bytes, kLargeBytes);
  free_async_now(small, stream);
  require_ok(device().synchronize_stream(stream));
  require_ok(device().reset_pool_peaks());
  allocate_async(granule_bytes(), stream);
  const DriverPoolStats low = require_ok(device().driver_pool_stats());
  EXPECT_GE(low.used_peak_bytes, granule_bytes());
  EXPECT_LT(low.used_peak_bytes, kLargeBytes);
  EXPECT_LT(low.reserved_peak_bytes, high.reserved_peak_bytes);
}

}  // namespace ashlar::contract
