// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory: allocate_host, free_host, register_host, unregister_host.
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

// Memory of the test's own, in pages that nothing else uses.
class OwnPages {
 public:
  explicit OwnPages(size_t page_count)
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

TEST_P(HostMemoryContract, AllocatedHostMemoryIsPageAlignedAndTheHostsToUse) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<uint8_t*> all;
  for (const size_t bytes : {size_t{1}, page, 3 * page + 1, size_t{1} << 20}) {
    uint8_t* memory = pinned_bytes(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % page, 0U);
    std::fill_n(memory, bytes, static_cast<uint8_t>(all.size() + 1));
    all.push_back(memory);
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(*all[i], i + 1) << "they do not overlap";
}

TEST_P(HostMemoryContract, TheDeviceCopiesFromAndToHostMemory) {
  constexpr size_t kBytes = 10'000;
  uint8_t* source = pinned_bytes(kBytes);
  uint8_t* target = pinned_bytes(kBytes);
  const Bytes wanted = pattern(kBytes, 17);
  std::copy(wanted.begin(), wanted.end(), source);
  std::fill_n(target, kBytes, uint8_t{0});
  const DeviceAddress address = allocated(kBytes);
  const StreamId stream = new_stream();
  must(device().copy_to_device(address, source, kBytes, stream));
  must(device().copy_to_host(target, address, kBytes, stream));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(Bytes(target, target + kBytes), wanted);
}

TEST_P(HostMemoryContract, HostMemoryTakesNoDeviceMemory) {
  const size_t before = free_bytes();
  pinned(16 * granule_bytes());
  EXPECT_TRUE(same_use(free_bytes(), before));
}

TEST_P(HostMemoryContract, AllocateHostRefusesNoBytes) {
  const Untouched untouched(*this);
  expect_usage(device().allocate_host(0));
}

TEST_P(HostMemoryContract, AllocateHostOfMoreThanTheHostHasIsOutOfMemory) {
  uint8_t* mine = pinned_bytes(4096);
  *mine = 5;
  {
    const Untouched untouched(*this);
    expect_out_of_memory(device().allocate_host(size_t{1} << 62));
    expect_out_of_memory(device().allocate_host(SIZE_MAX));
  }
  EXPECT_EQ(*mine, 5);
}

TEST_P(HostMemoryContract, FreeHostRefusesWhatAllocateHostDidNotGiveOut) {
  uint8_t* mine = pinned_bytes(8192);
  OwnPages own(1);
  must(device().register_host(own.begin(), own.page_bytes()));
  void* freed = must(device().allocate_host(4096));
  must(device().free_host(freed));
  {
    const Untouched untouched(*this);
    expect_usage(device().free_host(nullptr));
    expect_usage(device().free_host(mine + 1));
    expect_usage(device().free_host(mine + 4096));
    expect_usage(device().free_host(own.begin()));
    expect_usage(device().free_host(freed));
  }
  std::fill_n(mine, 8192, uint8_t{1});
  must(device().unregister_host(own.begin()));
}

TEST_P(HostMemoryContract, FreeHostRefusesAnotherDevicesHostMemory) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  uint8_t* mine = pinned_bytes(4096);
  expect_refused(StatusKind::kInvalidArgument, other(), other().free_host(mine));
  *mine = 1;
}

TEST_P(HostMemoryContract, FreeHostRefusesDeviceMemory) {
  const DeviceAddress address = allocated(granule_bytes());
  {
    const Untouched untouched(*this);
    expect_usage(device().free_host(reinterpret_cast<void*>(address.value())));
  }
  EXPECT_TRUE(holds_bytes(address));
}

TEST_P(HostMemoryContract, DescribeKnowsPinnedMemoryAndWhoPinnedIt) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  uint8_t* allocated_pages = pinned_bytes(4 * page);
  OwnPages own(4);
  must(device().register_host(own.begin(), 4 * page));
  for (uint8_t* memory : {allocated_pages, own.begin()}) {
    const AddressDescription found = must(device().describe(address_of(memory + page)));
    EXPECT_EQ(found.kind, MemoryKind::kHost);
    EXPECT_EQ(found.device, properties().index);
    EXPECT_EQ(found.range, (AddressRange{address_of(memory), 4 * page}));
  }
  must(device().unregister_host(own.begin()));
  EXPECT_EQ(must(device().describe(address_of(own.begin()))).kind, MemoryKind::kUnknown);
}

TEST_P(HostMemoryContract, RegisteredMemoryStaysTheCallersAndKeepsItsBytes) {
  OwnPages own(4);
  const size_t bytes = 4 * own.page_bytes();
  const Bytes wanted = pattern(bytes, 50);
  std::copy(wanted.begin(), wanted.end(), own.begin());
  must(device().register_host(own.begin(), bytes));
  const DeviceAddress address = allocated(bytes);
  const StreamId stream = new_stream();
  must(device().copy_to_device(address, own.begin(), bytes, stream));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, bytes), wanted);
  must(device().unregister_host(own.begin()));
  EXPECT_EQ(Bytes(own.begin(), own.begin() + bytes), wanted);
  must(device().register_host(own.begin(), bytes));
  must(device().unregister_host(own.begin()));
}

TEST_P(HostMemoryContract, RegisterHostRefusesNothingNoBytesAndOverflow) {
  OwnPages own(2);
  {
    const Untouched untouched(*this);
    expect_usage(device().register_host(nullptr, 4096));
    expect_usage(device().register_host(own.begin(), 0));
    expect_usage(device().register_host(own.begin(), SIZE_MAX));
  }
  must(device().register_host(own.begin(), own.page_bytes()));
  must(device().unregister_host(own.begin()));
}

TEST_P(HostMemoryContract, RegisterHostRefusesMemoryThatIsPinnedAlready) {
  OwnPages own(6);
  const size_t page = own.page_bytes();
  must(device().register_host(own.page(2), 2 * page));
  uint8_t* pinned_memory = pinned_bytes(2 * page);
  {
    const Untouched untouched(*this);
    expect_usage(device().register_host(own.page(2), 2 * page));
    expect_usage(device().register_host(own.page(2), page));
    expect_usage(device().register_host(own.page(3), 2 * page));
    expect_usage(device().register_host(own.page(1), 2 * page));
    expect_usage(device().register_host(own.begin(), 6 * page));
    expect_usage(device().register_host(pinned_memory, 2 * page));
  }
  must(device().register_host(own.page(0), 2 * page));
  must(device().register_host(own.page(4), 2 * page));
  for (const size_t first : {size_t{0}, size_t{2}, size_t{4}})
    must(device().unregister_host(own.page(first)));
}

TEST_P(HostMemoryContract, RegisterHostRefusesMemoryThatAnotherDevicePinned) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  OwnPages own(2);
  must(other().register_host(own.begin(), 2 * own.page_bytes()));
  expect_usage(device().register_host(own.begin(), 2 * own.page_bytes()));
  expect_usage(device().unregister_host(own.begin()));
  must(other().unregister_host(own.begin()));
}

TEST_P(HostMemoryContract, UnregisterHostRefusesWhatDoesNotStartARegisteredRange) {
  OwnPages own(2);
  const size_t page = own.page_bytes();
  must(device().register_host(own.begin(), 2 * page));
  uint8_t* pinned_memory = pinned_bytes(page);
  {
    const Untouched untouched(*this);
    expect_usage(device().unregister_host(nullptr));
    expect_usage(device().unregister_host(own.page(1)));
    expect_usage(device().unregister_host(own.begin() + 1));
    expect_usage(device().unregister_host(pinned_memory));
  }
  EXPECT_EQ(must(device().describe(address_of(own.begin()))).kind, MemoryKind::kHost);
  must(device().unregister_host(own.begin()));
  expect_usage(device().unregister_host(own.begin()));
}

}  // namespace ashlar::contract
