// SPDX-License-Identifier: Apache-2.0
//
// Tests of registered memory and the reserve segment.
#include "host/pinned_source.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "pinned_fixture.h"

namespace ashlar {
namespace {

size_t resident_pages(std::byte* begin, size_t bytes) {
  const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> flags((bytes + page_bytes - 1) / page_bytes);
  EXPECT_EQ(::mincore(begin, bytes, flags.data()), 0);
  return static_cast<size_t>(
      std::count_if(flags.begin(), flags.end(), [](unsigned char flag) { return flag & 1; }));
}

class PinnedSourceTest : public PinnedTest {
 protected:
  bool is_pinned(const PinnedBlock* block, size_t offset = 0) {
    const DeviceAddress at(reinterpret_cast<uint64_t>(block->memory.begin) + offset);
    return device().describe(at)->kind == MemoryKind::kHost;
  }
};

TEST_F(PinnedSourceTest, RegistersAlignedTouchedMemory) {
  options_.pinned.use_host_register = true;
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const size_t thread_count : {1, 2, 4, 128}) {
    options_.pinned.register_thread_count = thread_count;
    allocator_.reset();
    for (const size_t bytes : {size_t{1}, 33 * kMiB + 12 * kKiB}) {
      PinnedBlock* block = allocate(bytes);
      EXPECT_EQ(block->memory.origin, PinnedOrigin::kRegistered);
      EXPECT_EQ(reinterpret_cast<uint64_t>(block->memory.begin) % page_bytes, 0U);
      EXPECT_TRUE(is_pinned(block));
      EXPECT_TRUE(is_pinned(block, block->bytes() - 1));
      EXPECT_EQ(resident_pages(block->memory.begin, block->bytes()),
                (block->bytes() + page_bytes - 1) / page_bytes)
          << thread_count << " threads";
    }
  }
  EXPECT_EQ(call_count(DeviceCall::kAllocateHost), 0U);
}

TEST_F(PinnedSourceTest, ReleasesMemoryByItsOrigin) {
  for (const bool use_host_register : {false, true}) {
    options_.pinned.use_host_register = use_host_register;
    allocator_.reset();
    PinnedBlock* block = allocate(kMiB);
    free(block);
    EXPECT_TRUE(pinned().trim().ok());
  }
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 1U);
  EXPECT_EQ(call_count(DeviceCall::kUnregisterHost), 1U);
}

TEST_F(PinnedSourceTest, FailedRegistrationLeavesNothingBehind) {
  options_.pinned.use_host_register = true;
  fail_next(DeviceCall::kRegisterHost);
  EXPECT_EQ(pinned().allocate(kMiB).status().failed_call(), "register_host");
  EXPECT_EQ(pinned().stats().allocations.current, 0);
  EXPECT_NE(allocate(kMiB), nullptr);
}

TEST_F(PinnedSourceTest, FailedUnregistrationKeepsTheBlockUsable) {
  options_.pinned.use_host_register = true;
  PinnedBlock* block = allocate(kMiB);
  free(block);
  fail_next(DeviceCall::kUnregisterHost);
  EXPECT_EQ(pinned().trim().failed_call(), "unregister_host");
  EXPECT_EQ(allocate(kMiB), block);
  EXPECT_TRUE(is_pinned(block));
  block->memory.begin[0] = std::byte{1};
}

// --- the reserve segment

TEST_F(PinnedSourceTest, CutsTheReserveSegmentAtPages) {
  options_.pinned.reserve_segment_bytes = kMiB;
  make();
  EXPECT_EQ(call_count(DeviceCall::kAllocateHost), 1U);
  PinnedBlock* first = allocate(1);
  PinnedBlock* second = allocate(5000);
  PinnedBlock* third = allocate(1);
  EXPECT_EQ(second->memory.begin - first->memory.begin, 4096);
  EXPECT_EQ(third->memory.begin - second->memory.begin, 8192);
  EXPECT_EQ(call_count(DeviceCall::kAllocateHost), 1U);
  EXPECT_EQ(pinned().stats().reserve_bytes, kMiB);
  EXPECT_EQ(pinned().stats().reserve_used_bytes, 16 * kKiB);
}

TEST_F(PinnedSourceTest, CompatBlocksAreAlsoPageAligned) {
  options_.pinned.reserve_segment_bytes = kMiB;
  options_.pytorch_compatible = true;
  PinnedBlock* first = allocate(512);
  PinnedBlock* second = allocate(512);
  EXPECT_EQ(first->bytes(), 512U);
  EXPECT_EQ(second->memory.begin - first->memory.begin, 4096);
}

TEST_F(PinnedSourceTest, FallsBackToTheHostWhenReserveIsExhausted) {
  options_.pinned.reserve_segment_bytes = kMiB;
  PinnedBlock* inside = allocate(768 * kKiB);
  PinnedBlock* outside = allocate(512 * kKiB);
  PinnedBlock* last = allocate(256 * kKiB);
  EXPECT_EQ(inside->memory.origin, PinnedOrigin::kReserved);
  EXPECT_EQ(outside->memory.origin, PinnedOrigin::kAllocated);
  EXPECT_EQ(last->memory.origin, PinnedOrigin::kReserved) << "a request that fits uses the reserve";
  EXPECT_EQ(allocate(1)->memory.origin, PinnedOrigin::kAllocated);
}

TEST_F(PinnedSourceTest, CachesReservePartsForever) {
  options_.pinned.reserve_segment_bytes = kMiB;
  options_.pinned.max_cached_bytes = 0;
  PinnedBlock* block = allocate(256 * kKiB);
  free(block);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 0U);
  EXPECT_EQ(allocate(256 * kKiB), block);
  allocator_.reset();
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 1U) << "the segment is released with the allocator";
}

TEST_F(PinnedSourceTest, RegistersTheReserveSegment) {
  options_.pinned.reserve_segment_bytes = kMiB;
  options_.pinned.use_host_register = true;
  EXPECT_TRUE(is_pinned(allocate(kMiB), kMiB - 1));
  EXPECT_EQ(call_count(DeviceCall::kRegisterHost), 1U);
  allocator_.reset();
  EXPECT_EQ(call_count(DeviceCall::kUnregisterHost), 1U);
}

TEST_F(PinnedSourceTest, CreateFailsWithoutReserveSegment) {
  options_.pinned.reserve_segment_bytes = kMiB;
  fail_next(DeviceCall::kAllocateHost, Status::out_of_memory("injected"));
  EXPECT_EQ(PinnedAllocator::create(device(), options_, clock_).status().kind(),
            StatusKind::kOutOfMemory);
  options_.pinned.reserve_segment_bytes = SIZE_MAX;
  EXPECT_EQ(PinnedAllocator::create(device(), options_, clock_).status().kind(),
            StatusKind::kOutOfMemory);
}

}  // namespace
}  // namespace ashlar
