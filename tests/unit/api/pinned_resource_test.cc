// SPDX-License-Identifier: Apache-2.0
//
// Tests of PinnedResource as the memory resource of standard containers.
#include "ashlar/pinned_resource.h"

#include <numeric>
#include <string>
#include <vector>

#include "ashlar/host.h"
#include "base/text.h"
#include "unit/host/pinned_fixture.h"

namespace ashlar {
namespace {

class PinnedResourceTest : public PinnedTest {
 protected:
  bool is_pinned(const void* memory) {
    const DeviceAddress at(reinterpret_cast<uint64_t>(memory));
    return device().describe(at)->kind == MemoryKind::kHost;
  }
  void allocate(size_t bytes, size_t alignment = 8) { (void)pinned_.allocate(bytes, alignment); }
  int64_t active_count() { return host_.stats().active_requests.current; }

  HostAllocator host_{device()};
  PinnedResource pinned_{host_};
};

TEST_F(PinnedResourceTest, ContainersStoreElementsInPinnedMemory) {
  std::pmr::vector<int> numbers(1000, &pinned_);
  std::iota(numbers.begin(), numbers.end(), 7);
  EXPECT_TRUE(is_pinned(numbers.data()));
  numbers.resize(100'000);
  EXPECT_TRUE(is_pinned(numbers.data()));
  EXPECT_EQ(numbers[999], 1006);
  EXPECT_EQ(active_count(), 1) << "the previous storage is freed";
  numbers = std::pmr::vector<int>(&pinned_);
  numbers.shrink_to_fit();
  EXPECT_EQ(active_count(), 0);
}

TEST_F(PinnedResourceTest, SupportsEveryAlignment) {
  for (size_t alignment = 1; alignment <= kMiB; alignment *= 2) {
    for (size_t bytes : {size_t{1}, size_t{4096}, size_t{70'000}}) {
      SCOPED_TRACE(text(bytes, " B aligned to ", alignment));
      void* memory = pinned_.allocate(bytes, alignment);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0U);
      EXPECT_TRUE(is_pinned(memory));
      EXPECT_TRUE(is_pinned(static_cast<char*>(memory) + bytes - 1));
      std::fill_n(static_cast<char*>(memory), bytes, 'x');
      EXPECT_EQ(active_count(), 1);
      pinned_.deallocate(memory, bytes, alignment);
      EXPECT_EQ(active_count(), 0);
    }
  }
}

TEST_F(PinnedResourceTest, ZeroByteAllocationsHaveDistinctAddresses) {
  void* first = pinned_.allocate(0);
  void* second = pinned_.allocate(0);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  pinned_.deallocate(first, 0);
  pinned_.deallocate(second, 0);
  EXPECT_EQ(active_count(), 0);
}

TEST_F(PinnedResourceTest, ThrowsBadAllocIfOutOfMemory) {
  EXPECT_THROW(allocate(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(allocate(SIZE_MAX, 8192), std::bad_alloc);
  machine_->inject({.call = DeviceCall::kAllocateHost,
                    .count = sim::FaultRule::kForever,
                    .status = Status::out_of_memory("injected")});
  EXPECT_THROW(allocate(512), std::bad_alloc);
  EXPECT_THROW(allocate(512, 8192), std::bad_alloc);
  machine_->clear_faults();
  EXPECT_EQ(active_count(), 0);
}

TEST_F(PinnedResourceTest, RejectsInvalidAlignment) {
  EXPECT_THROW(allocate(512, 24), InvalidArgument);
}

TEST_F(PinnedResourceTest, ResourcesOfSameAllocatorCompareEqual) {
  const PinnedResource same(host_);
  HostAllocator other_host(device());
  const PinnedResource other(other_host);
  EXPECT_TRUE(pinned_.is_equal(pinned_));
  EXPECT_TRUE(pinned_.is_equal(same));
  EXPECT_FALSE(pinned_.is_equal(other));
  EXPECT_FALSE(pinned_.is_equal(*std::pmr::new_delete_resource()));
  EXPECT_EQ(&same.host(), &host_);
}

TEST_F(PinnedResourceTest, DefersReuseUntilRecordedStreamFinishes) {
  const StreamId busy = busy_stream();
  void* memory = pinned_.allocate(kMiB);
  EXPECT_TRUE(host_.record_stream(memory, busy));
  pinned_.deallocate(memory, kMiB);
  void* next = pinned_.allocate(kMiB);
  EXPECT_NE(next, memory);
  pinned_.deallocate(next, kMiB);
  finish(busy);
}

TEST_F(PinnedResourceTest, StandardPoolSubdividesFewAllocations) {
  {
    std::pmr::synchronized_pool_resource pool(&pinned_);
    std::pmr::vector<std::pmr::string> lines(&pool);
    for (int i = 0; i < 1000; ++i) lines.emplace_back(100, 'x');
    EXPECT_TRUE(is_pinned(lines.back().data()));
    EXPECT_LT(active_count(), 100);
  }
  EXPECT_EQ(active_count(), 0);
}

}  // namespace
}  // namespace ashlar
