// SPDX-License-Identifier: Apache-2.0
//
// Tests blocks in the heap of one rank (layout, lookup, persistent ids), and back ends.
#include "symm/memory/rank_heap.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace ashlar::symm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RankHeapTest : public ::testing::Test {
 protected:
  std::byte* allocate(size_t bytes, const AllocationOptions& options = {}) {
    const Result<std::byte*> made = heap_.allocate(bytes, options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }
  std::shared_ptr<HeapBlock> block_of(const void* pointer) { return heap_.find(pointer)->block; }

  std::unique_ptr<Process> process_ = *Process::start({});
  RankHeap heap_{*process_, process_->backends().activate(), {}};
};

TEST_F(RankHeapTest, ReleasesMulticastOfAFailedGroupAfterItsDeadline) {
  const auto releaser = std::make_shared<MulticastReleaser>();
  releaser->defer_releases();
  std::weak_ptr<MappedMemory> bound[2];
  for (std::weak_ptr<MappedMemory>& each : bound) {
    std::shared_ptr<MappedMemory> memory = *process_->backends().activate().allocate(64, 0);
    each = memory;
    if (&each == &bound[1])
      heap_.release_multicast_after(releaser, Deadline::after(std::chrono::hours(1)));
    releaser->release({std::move(memory), nullptr});
  }
  allocate(64);
  EXPECT_FALSE(bound[0].expired() || bound[1].expired());
  heap_.release_multicast_after(releaser, Deadline::after(std::chrono::nanoseconds(0)));
  EXPECT_FALSE(bound[0].expired());
  allocate(64);
  EXPECT_TRUE(bound[0].expired() && bound[1].expired());
}

TEST_F(RankHeapTest, BlockHasAZeroedPadAndAnAlignedBuffer) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, size_t{1} << 20}) {
    std::byte* buffer = allocate(bytes);
    const std::shared_ptr<HeapBlock> block = block_of(buffer);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % 128, 0U);
    EXPECT_EQ(block->layout.pad_bytes, 9216U);
    EXPECT_EQ(block->layout.buffer_offset, 9216U);
    EXPECT_EQ(block->layout.buffer_bytes, bytes);
    EXPECT_TRUE(std::all_of(block->memory->base(), buffer,
                            [](std::byte each) { return each == std::byte{0}; }));
    std::memset(buffer, 1, bytes);
  }
}

TEST_F(RankHeapTest, BufferOffsetIsRoundedUpAndPadSizeIsNot) {
  RankHeap odd(*process_, process_->backends().activate(), {1000});
  const std::shared_ptr<HeapBlock> block = odd.find(*odd.allocate(8, {}))->block;
  EXPECT_EQ(block->layout.pad_bytes, 1000U);
  EXPECT_EQ(block->layout.buffer_offset, 1024U);
}

TEST_F(RankHeapTest, FindsInteriorPointersOnly) {
  std::byte* buffer = allocate(1000);
  allocate(1000);
  EXPECT_EQ(heap_.find(buffer + 999)->offset, 999U);
  EXPECT_EQ(heap_.find(buffer + 999)->block, block_of(buffer));
  EXPECT_FALSE(heap_.find(buffer + 1000));
  EXPECT_FALSE(heap_.find(buffer - 1));  // an address in the pad
  EXPECT_FALSE(heap_.find(this));
  EXPECT_FALSE(heap_.find(nullptr));
  EXPECT_TRUE(heap_.find(allocate(0)));
}

TEST_F(RankHeapTest, FreeRejectsInteriorAndFreedPointers) {
  std::byte* buffer = allocate(1000);
  EXPECT_EQ(heap_.free(buffer + 1).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(heap_.free(this).kind(), StatusKind::kInvalidArgument);
  EXPECT_TRUE(heap_.free(buffer).ok());
  EXPECT_EQ(heap_.free(buffer).kind(), StatusKind::kInvalidArgument);
  EXPECT_FALSE(heap_.find(buffer));
}

TEST_F(RankHeapTest, ReturnsOutOfMemoryForHugeRequests) {
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 200, size_t{1} << 60}) {
    EXPECT_TRUE(heap_.allocate(bytes, {}).status().is_out_of_memory()) << bytes;
  }
  EXPECT_EQ(heap_.live_count(), 0U);
}

TEST_F(RankHeapTest, PersistentIdKeepsItsAddress) {
  std::byte* first = allocate(64, {{}, 7});
  EXPECT_THAT(heap_.allocate(64, {{}, 7}).status().message(), HasSubstr("still in use"));
  ASSERT_TRUE(heap_.free(first).ok());
  EXPECT_FALSE(heap_.find(first));
  EXPECT_EQ(heap_.free(first).kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(heap_.allocate(65, {{}, 7}).status().message(),
              HasSubstr("has 64 bytes, requested 65"));
  EXPECT_EQ(allocate(64, {{}, 7}), first);
  EXPECT_NE(allocate(64, {"other", 7}), first);  // ids are per group
  EXPECT_NE(allocate(64, {{}, 8}), first);
}

TEST_F(RankHeapTest, NumbersAllocationsPerGroup) {
  RankHeap other(*process_, process_->backends().activate(), {});
  const std::shared_ptr<HeapBlock> first = block_of(allocate(64));
  EXPECT_EQ(block_of(allocate(64, {"sub", {}}))->ordinal, 0U);
  const std::shared_ptr<HeapBlock> second = block_of(allocate(128));
  EXPECT_EQ(first->ordinal, 0U);
  EXPECT_EQ(second->ordinal, 1U);
  EXPECT_EQ(other.find(*other.allocate(64, {}))->block->sequence_hash, first->sequence_hash);
  EXPECT_EQ(other.find(*other.allocate(128, {}))->block->sequence_hash, second->sequence_hash);
  EXPECT_NE(other.find(*other.allocate(128, {}))->block->sequence_hash,
            block_of(allocate(256))->sequence_hash);
}

TEST(HostBackend, ImportsOnlyItsOwnExports) {
  const std::unique_ptr<Backend> host = make_host_backend();
  const std::shared_ptr<MappedMemory> memory = *host->allocate(5000, 0);
  memory->base()[4999] = std::byte{9};
  const std::shared_ptr<MappedMemory> again =
      *host->import_fd(*host->export_fd(*memory), memory->bytes());
  EXPECT_NE(again->base(), memory->base());
  EXPECT_EQ(again->base()[4999], std::byte{9});
  EXPECT_EQ(host->import_fd(*host->export_fd(*memory), 4096).status().kind(), StatusKind::kFormat);
  UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC));  // a peer could truncate it
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  EXPECT_EQ(host->import_fd(std::move(unsealed), 4096).status().kind(), StatusKind::kFormat);
  EXPECT_FALSE(host->import_fd(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), 4096).ok());
  EXPECT_FALSE(host->import_fd(UniqueFd(), 4096).ok());
}

class OtherBackend final : public Backend {
 public:
  std::string_view name() const override { return "other"; }
  DeviceUuid device() const override { return {1}; }
  Result<std::shared_ptr<MappedMemory>> allocate(size_t, size_t) override {
    return Status::out_of_memory("none");
  }
  Result<UniqueFd> export_fd(const MappedMemory&) override { return Status::unsupported("none"); }
  Result<std::shared_ptr<MappedMemory>> import_fd(UniqueFd, size_t) override {
    return Status::unsupported("none");
  }
};

TEST(BackendRegistry, SelectionCanChangeUntilFirstUse) {
  BackendRegistry backends;
  EXPECT_THAT(backends.names(), ElementsAre("host"));
  EXPECT_THAT(backends.select("other").message(),
              HasSubstr("symmetric memory: other (available: host"));
  ASSERT_TRUE(backends.add(std::make_unique<OtherBackend>()).ok());
  EXPECT_EQ(backends.add(std::make_unique<OtherBackend>()).kind(), StatusKind::kInvalidArgument);
  EXPECT_TRUE(backends.select("host").ok());  // selects the same back end again
  EXPECT_TRUE(backends.select("other").ok());
  EXPECT_TRUE(backends.select("host").ok());  // selects the first back end again
  EXPECT_TRUE(backends.select("other").ok());
  EXPECT_EQ(backends.activate().name(), "other");
  EXPECT_TRUE(backends.select("other").ok());
  EXPECT_THAT(backends.select("host").message(), HasSubstr("other is in use"));
  EXPECT_EQ(backends.selected_name(), "other");
}

}  // namespace
}  // namespace ashlar::symm
