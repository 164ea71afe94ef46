// SPDX-License-Identifier: Apache-2.0
//
// Tests pinned host memory: allocate_host, free_host, register_host, unregister_host.
#include <algorithm>
#include <cstring>
#include <vector>

#include <unistd.h>

#include "device_contract.h"

namespace ashlar::contract {
namespace {

DeviceAddress address_of(const void* memory) {
  return DeviceAddress(reinterpret_cast<uintptr_t>(memory));
}

// Page-aligned memory that the test owns.
class PageAlignedBuffer {
 public:
  explicit PageAlignedBuffer(size_t page_count)
      : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        storage_((page_count + 1) * page_bytes_) {}

  uint8_t* begin() {
    const uintptr_t raw = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (page_bytes_ - raw % page_bytes_) % page_bytes_;
  }
  uint8_t* page(size_t index) { return begin() + index * page_bytes_; }
  size_t page_bytes() const { return page_bytes_; }

 private:
  size_t page_bytes_;
  Bytes storage_;
};

}  // namespace

TEST_P(HostMemoryContract, AllocatedHostMemoryIsPageAlignedAndWritable) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<uint8_t*> all;
  for (const size_t bytes : {size_t{1}, page, 3 * page + 1, size_t{1} << 20}) {
    uint8_t* memory = allocate_pinned_bytes(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % page, 0U);
    std::fill_n(memory, bytes, static_cast<uint8_t>(all.size() + 1));
    all.push_back(memory);
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(*all[i], i + 1) << "the ranges do not overlap";
}

TEST_P(HostMemoryContract, DeviceCopiesFromAndToHostMemory) {
  constexpr size_t kBytes = 10'000;
  uint8_t* source = allocate_pinned_bytes(kBytes);
  uint8_t* target = allocate_pinned_bytes(kBytes);
  const Bytes wanted = pattern(kBytes, 17);
  std::copy(wanted.begin(), wanted.end(), source);
  std::fill_n(target, kBytes, uint8_t{0});
  const DeviceAddress address = allocate(kBytes);
  const StreamId stream = create_stream();
  require_ok(device().copy_to_device(address, source, kBytes, stream));
  require_ok(device().copy_to_host(target, address, kBytes, stream));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(Bytes(target, target + kBytes), wanted);
}

TEST_P(HostMemoryContract, HostMemoryUsesNoDeviceMemory) {
  const size_t before = free_bytes();
  allocate_pinned(16 * granule_bytes());
  EXPECT_TRUE(equal_within_slack(free_bytes(), before));
}

TEST_P(HostMemoryContract, AllocateHostRejectsZeroBytes) {
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().allocate_host(0));
}

TEST_P(HostMemoryContract, AllocateHostBeyondHostMemoryIsOutOfMemory) {
  uint8_t* mine = allocate_pinned_bytes(4096);
  *mine = 5;
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_out_of_memory(device().allocate_host(size_t{1} << 62));
    expect_out_of_memory(device().allocate_host(SIZE_MAX));
  }
  EXPECT_EQ(*mine, 5);
}

TEST_P(HostMemoryContract, FreeHostRejectsOtherPointers) {
  uint8_t* mine = allocate_pinned_bytes(8192);
  PageAlignedBuffer buffer(1);
  require_ok(device().register_host(buffer.begin(), buffer.page_bytes()));
  void* freed = require_ok(device().allocate_host(4096));
  require_ok(device().free_host(freed));
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free_host(nullptr));
    expect_invalid_argument(device().free_host(mine + 1));
    expect_invalid_argument(device().free_host(mine + 4096));
    expect_invalid_argument(device().free_host(buffer.begin()));
    expect_invalid_argument(device().free_host(freed));
  }
  std::fill_n(mine, 8192, uint8_t{1});
  require_ok(device().unregister_host(buffer.begin()));
}

TEST_P(HostMemoryContract, FreeHostRejectsAnotherDevicesHostMemory) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  uint8_t* mine = allocate_pinned_bytes(4096);
  expect_error(StatusKind::kInvalidArgument, other(), other().free_host(mine));
  *mine = 1;
}

TEST_P(HostMemoryContract, FreeHostRejectsDeviceMemory) {
  const DeviceAddress address = allocate(granule_bytes());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free_host(reinterpret_cast<void*>(address.value())));
  }
  EXPECT_TRUE(is_usable(address));
}

TEST_P(HostMemoryContract, DescribeReportsPinnedMemoryAndItsDevice) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  uint8_t* allocated_pages = allocate_pinned_bytes(4 * page);
  PageAlignedBuffer buffer(4);
  require_ok(device().register_host(buffer.begin(), 4 * page));
  for (uint8_t* memory : {allocated_pages, buffer.begin()}) {
    const AddressDescription found = require_ok(device().describe(address_of(memory + page)));
    EXPECT_EQ(found.kind, MemoryKind::kHost);
    EXPECT_EQ(found.device, properties().index);
    EXPECT_EQ(found.range, (AddressRange{address_of(memory), 4 * page}));
  }
  require_ok(device().unregister_host(buffer.begin()));
  EXPECT_EQ(require_ok(device().describe(address_of(buffer.begin()))).kind, MemoryKind::kUnknown);
}

TEST_P(HostMemoryContract, RegisteringPreservesContents) {
  PageAlignedBuffer buffer(4);
  const size_t bytes = 4 * buffer.page_bytes();
  const Bytes wanted = pattern(bytes, 50);
  std::copy(wanted.begin(), wanted.end(), buffer.begin());
  require_ok(device().register_host(buffer.begin(), bytes));
  const DeviceAddress address = allocate(bytes);
  const StreamId stream = create_stream();
  require_ok(device().copy_to_device(address, buffer.begin(), bytes, stream));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, bytes), wanted);
  require_ok(device().unregister_host(buffer.begin()));
  EXPECT_EQ(Bytes(buffer.begin(), buffer.begin() + bytes), wanted);
  require_ok(device().register_host(buffer.begin(), bytes));
  require_ok(device().unregister_host(buffer.begin()));
}

TEST_P(HostMemoryContract, RegisterHostRejectsNullZeroBytesAndOverflow) {
  PageAlignedBuffer buffer(2);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().register_host(nullptr, 4096));
    expect_invalid_argument(device().register_host(buffer.begin(), 0));
    expect_invalid_argument(device().register_host(buffer.begin(), SIZE_MAX));
  }
  require_ok(device().register_host(buffer.begin(), buffer.page_bytes()));
  require_ok(device().unregister_host(buffer.begin()));
}

TEST_P(HostMemoryContract, RegisterHostRejectsPinnedMemory) {
  PageAlignedBuffer buffer(6);
  const size_t page = buffer.page_bytes();
  require_ok(device().register_host(buffer.page(2), 2 * page));
  uint8_t* pinned_memory = allocate_pinned_bytes(2 * page);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().register_host(buffer.page(2), 2 * page));
    expect_invalid_argument(device().register_host(buffer.page(2), page));
    expect_invalid_argument(device().register_host(buffer.page(3), 2 * page));
    expect_invalid_argument(device().register_host(buffer.page(1), 2 * page));
    expect_invalid_argument(device().register_host(buffer.begin(), 6 * page));
    expect_invalid_argument(device().register_host(pinned_memory, 2 * page));
  }
  require_ok(device().register_host(buffer.page(0), 2 * page));
  require_ok(device().register_host(buffer.page(4), 2 * page));
  for (const size_t first : {size_t{0}, size_t{2}, size_t{4}})
    require_ok(device().unregister_host(buffer.page(first)));
}

TEST_P(HostMemoryContract, RegisterHostRejectsMemoryPinnedByAnotherDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  PageAlignedBuffer buffer(2);
  require_ok(other().register_host(buffer.begin(), 2 * buffer.page_bytes()));
  expect_invalid_argument(device().register_host(buffer.begin(), 2 * buffer.page_bytes()));
  expect_invalid_argument(device().unregister_host(buffer.begin()));
  require_ok(other().unregister_host(buffer.begin()));
}

TEST_P(HostMemoryContract, UnregisterHostRejectsOtherPointers) {
  PageAlignedBuffer buffer(2);
  const size_t page = buffer.page_bytes();
  require_ok(device().register_host(buffer.begin(), 2 * page));
  uint8_t* pinned_memory = allocate_pinned_bytes(page);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().unregister_host(nullptr));
    expect_invalid_argument(device().unregister_host(buffer.page(1)));
    expect_invalid_argument(device().unregister_host(buffer.begin() + 1));
    expect_invalid_argument(device().unregister_host(pinned_memory));
  }
  EXPECT_EQ(require_ok(device().describe(address_of(buffer.begin()))).kind, MemoryKind::kHost);
  require_ok(device().unregister_host(buffer.begin()));
  expect_invalid_argument(device().unregister_host(buffer.begin()));
}

}  // namespace ashlar::contract
