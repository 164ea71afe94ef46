// SPDX-License-Identifier: Apache-2.0
//
// The driver's stream-ordered pool: allocate_async, free_async, and how the pool accounts for and
// gives back its memory.
#include <algorithm>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {
namespace {

// A driver may take pool memory in pieces of some tens of MiB; with these sizes it must show.
constexpr size_t kLarge = size_t{64} << 20;

}  // namespace

TEST_P(PoolContract, PoolMemoryServesWorkOfItsStreamAtOnce) {
  constexpr size_t kBytes = 100'000;
  const StreamId stream = new_stream();
  uint8_t* host = pinned_bytes(kBytes);
  Gate& gate = hold(stream);
  const DeviceAddress address = allocated_async(kBytes, stream);
  must(device().fill(address, 12, kBytes, stream));
  must(device().copy_to_host(host, address, kBytes, stream));
  EXPECT_TRUE(gate.is_closed()) << "a call waited for the stream";
  gate.open();
  must(device().synchronize_stream(stream));
  EXPECT_EQ(Bytes(host, host + kBytes), Bytes(kBytes, 12));
}

TEST_P(PoolContract, PoolAllocationsDoNotOverlap) {
  constexpr size_t kBytes = 3000;
  const StreamId stream = new_stream();
  std::vector<DeviceAddress> addresses;
  for (uint8_t i = 0; i < 16; ++i) {
    addresses.push_back(allocated_async(kBytes, stream));
    must(device().fill(addresses.back(), i, kBytes, stream));
  }
  must(device().synchronize_stream(stream));
  for (uint8_t i = 0; i < 16; ++i) EXPECT_EQ(read_back(addresses[i], kBytes), Bytes(kBytes, i));
}

TEST_P(PoolContract, DescribeKnowsPoolMemory) {
  const StreamId stream = new_stream();
  const DeviceAddress address = allocated_async(granule_bytes(), stream);
  must(device().synchronize_stream(stream));
  const AddressDescription found = must(device().describe(address + 1));
  EXPECT_EQ(found.kind, MemoryKind::kDevice);
  EXPECT_EQ(found.device, properties().index);
  EXPECT_TRUE(found.range.contains({address, granule_bytes()}));
}

TEST_P(PoolContract, AllocateAsyncRefusesNoBytes) {
  const StreamId stream = new_stream();
  const Untouched untouched(*this);
  expect_usage(device().allocate_async(0, stream));
}

TEST_P(PoolContract, AllocateAsyncOfMoreThanThereIsIsOutOfMemory) {
  const StreamId stream = new_stream();
  const size_t used = must(device().driver_pool_stats()).used_bytes;
  {
    const Untouched untouched(*this);
    expect_out_of_memory(device().allocate_async(properties().capacity_bytes * 2, stream));
    expect_out_of_memory(device().allocate_async(size_t{1} << 62, stream));
    expect_out_of_memory(device().allocate_async(SIZE_MAX, stream));
  }
  EXPECT_EQ(must(device().driver_pool_stats()).used_bytes, used);
  const DeviceAddress address = allocated_async(4096, stream);
  must(device().synchronize_stream(stream));
  EXPECT_TRUE(holds_bytes(address)) << "the device is as healthy as before";
}

TEST_P(PoolContract, AFullDeviceIsOutOfMemoryUntilPoolMemoryIsFreed) {
  const StreamId stream = new_stream();
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
  must(device().synchronize_stream(stream));
  const DeviceAddress again = allocated_async(step, stream);
  must(device().synchronize_stream(stream));
  EXPECT_TRUE(holds_bytes(again));
}

// --- the order of frees and reuse ---------------------------------------------------------------

TEST_P(PoolContract, MemoryFreedInAStreamServesLaterWorkOfThatStreamInOrder) {
  const size_t bytes = granule_bytes();
  const StreamId stream = new_stream();
  uint8_t* first = pinned_bytes(bytes);
  uint8_t* second = pinned_bytes(bytes);
  Gate& gate = hold(stream);
  const DeviceAddress before = must(device().allocate_async(bytes, stream));
  must(device().fill(before, 1, bytes, stream));
  must(device().copy_to_host(first, before, bytes, stream));
  must(device().free_async(before, stream));
  const DeviceAddress after = allocated_async(bytes, stream);
  must(device().fill(after, 2, bytes, stream));
  must(device().copy_to_host(second, after, bytes, stream));
  gate.open();
  must(device().synchronize_stream(stream));
  EXPECT_EQ(Bytes(first, first + bytes), Bytes(bytes, 1));
  EXPECT_EQ(Bytes(second, second + bytes), Bytes(bytes, 2));
}

TEST_P(PoolContract, AnotherStreamDoesNotGetMemoryWhoseFreeHasNotHappened) {
  const size_t bytes = granule_bytes();
  const StreamId user = new_stream();
  const StreamId greedy = new_stream();
  uint8_t* seen = pinned_bytes(bytes);
  const DeviceAddress address = must(device().allocate_async(bytes, user));
  must(device().fill(address, 1, bytes, user));
  Gate& gate = hold(user);
  must(device().copy_to_host(seen, address, bytes, user));
  must(device().free_async(address, user));
  std::vector<DeviceAddress> taken;
  for (int i = 0; i < 4; ++i) {
    taken.push_back(allocated_async(bytes, greedy));
    must(device().fill(taken.back(), 0xff, bytes, greedy));
  }
  EXPECT_TRUE(stays_busy(user));
  gate.open();
  must(device().synchronize_stream(user));
  EXPECT_EQ(Bytes(seen, seen + bytes), Bytes(bytes, 1)) << "it was reused before its free";
  must(device().synchronize_stream(greedy));
}

TEST_P(PoolContract, MemoryMayBeFreedInAnotherStreamThanItWasAllocatedIn) {
  const size_t bytes = granule_bytes();
  const StreamId first = new_stream();
  const StreamId second = new_stream();
  const EventId used = new_event();
  const DeviceAddress address = allocated_async(bytes, first);
  must(device().fill(address, 1, bytes, first));
  must(device().record_event(used, first));
  must(device().wait_event(second, used));
  free_async_now(address, second);
  must(device().synchronize_stream(second));
  expect_usage(device().free_async(address, first));
}

// --- misuse -------------------------------------------------------------------------------------

TEST_P(PoolContract, FreeAsyncRefusesWhatAllocateAsyncDidNotGiveOut) {
  const StreamId stream = new_stream();
  const DeviceAddress plain = allocated(granule_bytes());
  const DeviceAddress address = allocated_async(granule_bytes(), stream);
  must(device().synchronize_stream(stream));
  {
    const Untouched untouched(*this);
    expect_usage(device().free_async({}, stream));
    expect_usage(device().free_async(address + 1, stream));
    expect_usage(device().free_async(plain, stream));
    expect_usage(device().free_async(never_given<DeviceAddress>(), stream));
    if (has_other() && other().properties().has_stream_pool) {
      expect_refused(StatusKind::kInvalidArgument, other(),
                     other().free_async(address, kDefaultStream));
    }
  }
  EXPECT_TRUE(holds_bytes(plain));
  EXPECT_TRUE(holds_bytes(address));
}

TEST_P(PoolContract, FreeRefusesPoolMemory) {
  const StreamId stream = new_stream();
  const DeviceAddress address = allocated_async(granule_bytes(), stream);
  must(device().synchronize_stream(stream));
  {
    const Untouched untouched(*this);
    expect_usage(device().free(address));
  }
  EXPECT_TRUE(holds_bytes(address));
}

TEST_P(PoolContract, FreeAsyncRefusesASecondTimeEvenBeforeTheFirstTookEffect) {
  const StreamId stream = new_stream();
  const DeviceAddress address = allocated_async(granule_bytes(), stream);
  Gate& gate = hold(stream);
  free_async_now(address, stream);
  expect_usage(device().free_async(address, stream));
  expect_usage(device().free_async(address, kDefaultStream));
  EXPECT_TRUE(gate.is_closed());
  gate.open();
  must(device().synchronize_stream(stream));
  expect_usage(device().free_async(address, stream));
}

TEST_P(PoolContract, FreedPoolMemoryIsRefusedByWork) {
  const StreamId stream = new_stream();
  const DeviceAddress address = allocated_async(granule_bytes(), stream);
  free_async_now(address, stream);
  must(device().synchronize_stream(stream));
  expect_usage(device().fill(address, 1, 16, stream));
}

TEST_P(PoolContract, FreeAsyncRefusesAForeignStreamAndKeepsTheMemory) {
  if (!properties().checks_stream_ids) GTEST_SKIP() << "the device cannot tell foreign streams";
  const StreamId stream = new_stream();
  const DeviceAddress address = allocated_async(granule_bytes(), stream);
  must(device().synchronize_stream(stream));
  expect_usage(device().free_async(address, never_given<StreamId>()));
  EXPECT_TRUE(holds_bytes(address));
}

// --- accounting ---------------------------------------------------------------------------------

TEST_P(PoolContract, PoolUseCountsWhatIsAllocated) {
  const StreamId stream = new_stream();
  const DriverPoolStats before = must(device().driver_pool_stats());
  const size_t free_before = free_bytes();
  const DeviceAddress address = allocated_async(kLarge, stream);
  must(device().synchronize_stream(stream));
  const DriverPoolStats during = must(device().driver_pool_stats());
  EXPECT_EQ(during.used_bytes, before.used_bytes + kLarge);
  EXPECT_GE(during.reserved_bytes, during.used_bytes);
  EXPECT_GE(during.used_peak_bytes, during.used_bytes);
  EXPECT_GE(during.reserved_peak_bytes, during.reserved_bytes);
  EXPECT_LE(free_bytes(), free_before - kLarge + GetParam().accounting_slack_bytes);
  free_async_now(address, stream);
  must(device().synchronize_stream(stream));
  EXPECT_EQ(must(device().driver_pool_stats()).used_bytes, before.used_bytes);
}

TEST_P(PoolContract, AtFirstAnIdlePoolKeepsNothingWhenTheHostSynchronizes) {
  const StreamId stream = new_stream();
  const size_t before = free_bytes();
  free_async_now(allocated_async(kLarge, stream), stream);
  must(device().synchronize_stream(stream));
  EXPECT_EQ(must(device().driver_pool_stats()).reserved_bytes, 0U);
  EXPECT_TRUE(same_use(free_bytes(), before));
}

TEST_P(PoolContract, ThePoolKeepsUnusedMemoryUpToTheThreshold) {
  const StreamId stream = new_stream();
  must(device().set_pool_threshold(SIZE_MAX));
  free_async_now(allocated_async(kLarge, stream), stream);
  must(device().synchronize_stream(stream));
  const size_t kept = must(device().driver_pool_stats()).reserved_bytes;
  EXPECT_GE(kept, kLarge);
  free_async_now(allocated_async(kLarge, stream), stream);
  must(device().synchronize_stream(stream));
  EXPECT_EQ(must(device().driver_pool_stats()).reserved_bytes, kept)
      << "what was kept was not used again";
  must(device().set_pool_threshold(0));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(must(device().driver_pool_stats()).reserved_bytes, 0U);
}

TEST_P(PoolContract, TrimGivesBackUnusedMemoryAndKeepsWhatIsUsed) {
  const StreamId stream = new_stream();
  must(device().set_pool_threshold(SIZE_MAX));
  const DeviceAddress used = allocated_async(kLarge, stream);
  const DeviceAddress unused = allocated_async(kLarge, stream);
  must(device().fill(used, 45, 4096, stream));
  free_async_now(unused, stream);
  must(device().synchronize_stream(stream));
  const DriverPoolStats before = must(device().driver_pool_stats());
  EXPECT_GE(before.reserved_bytes, 2 * kLarge);
  must(device().trim_pool(before.reserved_bytes));
  EXPECT_EQ(must(device().driver_pool_stats()).reserved_bytes, before.reserved_bytes)
      << "nothing to trim";
  must(device().trim_pool(0));
  const DriverPoolStats after = must(device().driver_pool_stats());
  EXPECT_LT(after.reserved_bytes, before.reserved_bytes);
  EXPECT_GE(after.reserved_bytes, after.used_bytes);
  EXPECT_EQ(after.used_bytes, before.used_bytes);
  EXPECT_EQ(read_back(used, 4096), Bytes(4096, 45));
}

TEST_P(PoolContract, TrimLeavesNoMoreThanWasAskedFor) {
  const StreamId stream = new_stream();
  must(device().set_pool_threshold(SIZE_MAX));
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 4; ++i) all.push_back(allocated_async(kLarge, stream));
  for (const DeviceAddress address : all) free_async_now(address, stream);
  must(device().synchronize_stream(stream));
  ASSERT_GE(must(device().driver_pool_stats()).reserved_bytes, 4 * kLarge);
  must(device().trim_pool(2 * kLarge));
  EXPECT_LE(must(device().driver_pool_stats()).reserved_bytes, 2 * kLarge);
  must(device().trim_pool(0));
  EXPECT_EQ(must(device().driver_pool_stats()).reserved_bytes, 0U);
}

TEST_P(PoolContract, PeaksStayUntilTheyAreReset) {
  const StreamId stream = new_stream();
  free_async_now(allocated_async(kLarge, stream), stream);
  must(device().synchronize_stream(stream));
  const DeviceAddress small = allocated_async(granule_bytes(), stream);
  const DriverPoolStats high = must(device().driver_pool_stats());
  EXPECT_GE(high.used_peak_bytes, kLarge) << "a smaller use later lowers no peak";
  EXPECT_GE(high.reserved_peak_bytes, kLarge);
  free_async_now(small, stream);
  must(device().synchronize_stream(stream));
  must(device().reset_pool_peaks());
  allocated_async(granule_bytes(), stream);
  const DriverPoolStats low = must(device().driver_pool_stats());
  EXPECT_GE(low.used_peak_bytes, granule_bytes());
  EXPECT_LT(low.used_peak_bytes, kLarge);
  EXPECT_LT(low.reserved_peak_bytes, high.reserved_peak_bytes);
}

}  // namespace ashlar::contract
