// SPDX-License-Identifier: Apache-2.0
//
// Tests of growing, reusing and unmapping expandable segments, and of failed driver calls.
#include <gmock/gmock.h>

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

using enum TraceAction;
using ::testing::ElementsAre;

class ExpandableTest : public ClassicFixture {
 protected:
  void start_expandable(size_t capacity_bytes = kGiB) {
    AllocatorOptions options;
    options.expandable_segments = true;
    options.pytorch_compatible = true;
    start(options, capacity_bytes);
  }
  int64_t reserved_mib() const {
    return stats().reserved_bytes.all.current / static_cast<int64_t>(kMiB);
  }
};

TEST_F(ExpandableTest, GrowsInPlaceAndUnmapsWhenAllIsFree) {
  start_expandable();
  Block* first = allocate(16 * kMiB);
  const DeviceAddress base = first->address;
  Block* second = allocate(16 * kMiB);
  EXPECT_EQ(second->address, base + 16 * kMiB) << "grown in place";
  EXPECT_EQ(reserved_mib(), 40);
  free(first);
  Block* third = allocate(30 * kMiB);
  EXPECT_EQ(third->address, base + 32 * kMiB);
  EXPECT_EQ(reserved_mib(), 80);
  trim();
  EXPECT_EQ(reserved_mib(), 80) << "no granule is wholly free";
  free(second);
  free(third);
  trim();
  EXPECT_EQ(reserved_mib(), 0);
  EXPECT_EQ(calls(DeviceCall::kFreeAddresses), 1U) << "the segment was destroyed";
  EXPECT_EQ(calls(DeviceCall::kReserve), 1U);
}

// Adopts two mapped ranges of a segment whose addresses begin 20 MiB before the first range.
TEST_F(ExpandableTest, AdoptsMappedRangesOfRecordedSegment) {
  start_expandable();
  const DeviceAddress begin(uint64_t{1} << 40);
  SnapshotSegment low;
  low.is_expandable = low.is_large = true;
  low.address = begin + 20 * kMiB;
  low.total_bytes = 20 * kMiB;
  low.blocks = {{low.address, 8 * kMiB, 8 * kMiB, SnapshotBlockState::kAllocated, {}},
                {low.address + 8 * kMiB, 12 * kMiB, 0, SnapshotBlockState::kInactive, {}}};
  SnapshotSegment high = low;
  high.address = begin + 60 * kMiB;
  high.blocks = {{high.address, 20 * kMiB, 20 * kMiB, SnapshotBlockState::kAllocated, {}}};
  const SnapshotSegment parts[] = {low, high};
  const Result<std::vector<ClassicBlock*>> blocks = engine_->adopt_expandable(parts, begin);
  ASSERT_TRUE(blocks.ok()) << blocks.status().to_string();
  ASSERT_EQ(blocks->size(), 2U);
  EXPECT_EQ((*blocks)[1]->address - (*blocks)[0]->address, 40 * kMiB);
  EXPECT_EQ(reserved_mib(), 40);
  EXPECT_TRUE(engine_->validate().ok()) << engine_->validate().to_string();
  EXPECT_EQ(allocate(12 * kMiB)->address, (*blocks)[0]->end()) << "the free block is reused";
  EXPECT_EQ(allocate(20 * kMiB)->end(), (*blocks)[0]->address) << "the lowest hole is mapped";
  EXPECT_EQ(reserved_mib(), 60);
  high.total_bytes = high.blocks[0].bytes = 19 * kMiB;
  EXPECT_TRUE(
      engine_->adopt_expandable({&high, 1}, begin).status().is(StatusKind::kInvalidArgument))
      << "not a whole granule";
}

TEST_F(ExpandableTest, SmallSegmentsGrowByTwoMiB) {
  start_expandable();
  allocate(512);
  EXPECT_EQ(reserved_mib(), 2);
  for (int i = 0; i < 3; ++i) allocate(kMiB);
  EXPECT_EQ(reserved_mib(), 4);
  EXPECT_EQ(calls(DeviceCall::kReserve), 1U);
}

TEST_F(ExpandableTest, LargeRequestsMapOnlyNeededGranules) {
  start_expandable();
  allocate(100 * kMiB);
  EXPECT_EQ(reserved_mib(), 100);
  allocate(30 * kMiB);
  EXPECT_EQ(reserved_mib(), 140);
  EXPECT_EQ(stats().segment.all.current, 0) << "plain segments only";
  EXPECT_EQ(calls(DeviceCall::kAllocate), 0U);
}

TEST_F(ExpandableTest, UsesFreeSpaceBeforeTheTail) {
  start_expandable();
  Block* first = allocate(2 * kMiB);  // leaves 18 MiB
  EXPECT_EQ(allocate(30 * kMiB)->address, first->end());
  EXPECT_EQ(reserved_mib(), 40) << "12 MiB were missing, not 30";
}

TEST_F(ExpandableTest, RefillsHolesAtLowestAddress) {
  start_expandable();
  std::vector<Block*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(allocate(20 * kMiB));
  const DeviceAddress low = blocks[1]->address;
  free(blocks[3]);
  free(blocks[1]);
  trim();
  EXPECT_EQ(reserved_mib(), 60);
  EXPECT_EQ(allocate(20 * kMiB)->address, low);
  EXPECT_EQ(reserved_mib(), 80);
}

TEST_F(ExpandableTest, SkipsTooSmallHoles) {
  start_expandable();
  std::vector<Block*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(allocate(20 * kMiB));
  const DeviceAddress end = blocks[2]->end();
  free(blocks[1]);
  trim();
  EXPECT_EQ(allocate(30 * kMiB)->address, end);
}

TEST_F(ExpandableTest, PrefersBlocksThatCannotGrow) {
  start_expandable();
  Block* fixed = allocate(30 * kMiB);
  Block* divider = allocate(10 * kMiB);
  const DeviceAddress inside = fixed->address;
  free(fixed);                        // 30 MiB in front of `divider`
  Block* tail = allocate(20 * kMiB);  // taken from the 30 MiB
  EXPECT_EQ(tail->address, inside);
  free(tail);
  Block* end = allocate(36 * kMiB);  // maps two granules and leaves 4 MiB free at the end
  Block* taken = allocate(4 * kMiB);
  EXPECT_EQ(taken->address, inside) << "although 4 MiB at the tail would fit better";
  free(divider);
  free(end);
}

TEST_F(ExpandableTest, SplitsDownTo512Bytes) {
  start_expandable();
  Block* block = allocate(20 * kMiB - 512);
  EXPECT_EQ(block->bytes, 20 * kMiB - 512);
  ASSERT_NE(as_classic(block)->next, nullptr);
  EXPECT_EQ(as_classic(block)->next->bytes, 512U);
  EXPECT_EQ(as_classic(block)->next->state, BlockState::kFree);
}

TEST_F(ExpandableTest, UnmapsWholeGranules) {
  start_expandable();
  Block* first = allocate(30 * kMiB);
  Block* second = allocate(50 * kMiB);
  const DeviceAddress base = first->address;
  free(second);
  device_operations();
  trim();
  EXPECT_THAT(device_operations(), ElementsAre(kSegmentUnmap));
  EXPECT_EQ(reserved_mib(), 40) << "the granule that the first one reaches into stays";
  EXPECT_EQ(allocate(10 * kMiB)->address, base + 30 * kMiB);
}

TEST_F(ExpandableTest, UnmapWaitsForStream) {
  start_expandable();
  cache(20 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kSynchronizeStream), 0U);
  trim();
  EXPECT_EQ(calls(DeviceCall::kSynchronizeStream), 1U);
}

TEST_F(ExpandableTest, StreamsHaveSeparateSegments) {
  start_expandable();
  const StreamId other = new_stream();
  Block* mine = allocate(20 * kMiB);
  Block* theirs = allocate(20 * kMiB, other);
  EXPECT_NE(as_classic(mine)->expandable, as_classic(theirs)->expandable);
  EXPECT_EQ(calls(DeviceCall::kReserve), 2U);
}

TEST_F(ExpandableTest, UndoesPartialMappings) {
  start_expandable();
  inject_out_of_memory(DeviceCall::kCreate, 1, 2);  // fails only the first attempt
  Block* block = allocate(50 * kMiB);
  EXPECT_EQ(block->bytes, 50 * kMiB);
  EXPECT_EQ(reserved_mib(), 60);
  EXPECT_EQ(used_bytes(), 60 * kMiB);
  EXPECT_EQ(stats().alloc_retries, 1);
}

TEST_F(ExpandableTest, KeepsMemoryMappedBeforeFailure) {
  AllocatorOptions options;
  options.expandable_segments = true;
  start(options);
  std::vector<Block*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(20 * kMiB));
  const DeviceAddress base = blocks[0]->address;
  free(blocks[0]);
  free(blocks[2]);
  trim();           // holes at blocks 0 and 2
  free(blocks[1]);  // free between two holes
  trace_.clear();
  machine_->inject({.call = DeviceCall::kCreate, .nth = 2});  // only the first hole is filled
  EXPECT_EQ(allocation_error(60 * kMiB).kind(), StatusKind::kDeviceFault)
      << "so that nothing is flushed";
  EXPECT_EQ(reserved_mib(), 60);
  EXPECT_EQ(allocate(40 * kMiB)->address, base) << "the hole and the range after it";
  EXPECT_EQ(reserved_mib(), 60) << "no more was mapped for it";
  free(blocks[3]);
}

TEST_F(ExpandableTest, SurvivesFailureOfEveryMappingCall) {
  using enum DeviceCall;
  for (DeviceCall call : {kReserve, kCreate, kMap, kSetAccess}) {
    SCOPED_TRACE(name(call));
    start_expandable();
    machine_->inject({.call = call});
    EXPECT_EQ(allocation_error(30 * kMiB).kind(), StatusKind::kDeviceFault);
    EXPECT_EQ(used_bytes(), 0U);
    must(engine_->validate());
    Block* block = allocate(30 * kMiB);
    free(block);
    trim();
    EXPECT_EQ(used_bytes(), 0U);
    engine_.reset();
  }
}

TEST_F(ExpandableTest, RetriesFailedRelease) {
  using enum DeviceCall;
  for (DeviceCall call : {kSynchronizeStream, kUnmap, kRelease, kFreeAddresses}) {
    SCOPED_TRACE(name(call));
    start_expandable();
    cache(30 * kMiB);
    machine_->inject({.call = call});
    EXPECT_EQ(engine_->trim({}).kind(), StatusKind::kDeviceFault);
    must(engine_->validate());
    trim();
    EXPECT_EQ(used_bytes(), 0U);
    EXPECT_EQ(reserved_mib(), 0);
    EXPECT_EQ(calls(kFreeAddresses), calls(kReserve));
    engine_.reset();
  }
}

TEST_F(ExpandableTest, RetriesFailedUndo) {
  start_expandable();
  machine_->inject({.call = DeviceCall::kMap, .nth = 2});
  machine_->inject({.call = DeviceCall::kUnmap});
  EXPECT_EQ(allocation_error(40 * kMiB).kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(used_bytes(), 20 * kMiB) << "mapped but not counted";
  machine_->inject({.call = DeviceCall::kUnmap});
  EXPECT_EQ(allocation_error(40 * kMiB).kind(), StatusKind::kDeviceFault)
      << "it is still mapped there";
  Block* block = allocate(40 * kMiB);
  EXPECT_EQ(used_bytes(), 40 * kMiB);
  free(block);
  trim();
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(ExpandableTest, DestructorContinuesAfterUnmapError) {
  start_expandable();
  std::vector<Block*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(allocate(20 * kMiB));
  free(blocks[1]);
  free(blocks[3]);
  trim();
  EXPECT_EQ(used_bytes(), 60 * kMiB) << "three stretches with holes between them";
  machine_->inject({.call = DeviceCall::kUnmap, .count = 2});  // the destructor retries once
  engine_.reset();
  EXPECT_EQ(used_bytes(), 20 * kMiB);
}

TEST_F(ExpandableTest, TrimDestroysEmptySegments) {
  start_expandable();
  inject_out_of_memory(DeviceCall::kCreate, 2);
  EXPECT_EQ(allocation_error(30 * kMiB).kind(), StatusKind::kOutOfMemory);
  trim();
  EXPECT_EQ(calls(DeviceCall::kFreeAddresses), calls(DeviceCall::kReserve));
}

TEST_F(ExpandableTest, RequestAboveReserveIsOutOfMemory) {
  AllocatorOptions options;
  options.expandable_segments = true;
  options.expandable_reserve = ReserveSize{.bytes = 100 * kMiB};
  start(options);
  int notices = 0;
  engine_->add_oom_observer([&](const OomNotice&) { ++notices; });
  EXPECT_EQ(allocation_error(120 * kMiB).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(notices, 1);
  allocate(100 * kMiB);
  allocate(20 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kReserve), 2U) << "the first segment is full";
}

TEST_F(ExpandableTest, LimitCountsMappedMemory) {
  AllocatorOptions options;
  options.expandable_segments = true;
  options.memory_fraction = 0.5;
  start(options, 100 * kMiB);
  Block* kept = allocate(40 * kMiB);
  EXPECT_EQ(allocation_error(20 * kMiB).kind(), StatusKind::kOutOfMemory);
  free(kept);
}

TEST_F(ExpandableTest, LimitCountsGranulesExceptInCompatMode) {
  for (bool compatible : {false, true}) {
    SCOPED_TRACE(compatible);
    AllocatorOptions options;
    options.expandable_segments = true;
    options.pytorch_compatible = compatible;
    options.memory_fraction = 0.5;
    start(options, 100 * kMiB);
    allocate(24 * kMiB);  // maps 40 MiB
    const Result<Block*> more = engine_->allocate({10 * kMiB, new_stream()});
    EXPECT_EQ(more.ok(), compatible);
    EXPECT_EQ(used_bytes(), compatible ? 60 * kMiB : 40 * kMiB);
    engine_.reset();
  }
}

TEST_F(ExpandableTest, OverflowPoolsDoNotLendExpandableBlocks) {
  start_expandable();
  const PoolId lender{0, 1};
  must(engine_->create_pool(lender, {.use_on_oom = true}));
  route(lender);
  const DeviceAddress cached = cache(40 * kMiB);
  end_route(lender);
  inject_out_of_memory(DeviceCall::kCreate, 1);
  EXPECT_NE(allocate(40 * kMiB)->address, cached);
}

// Segments of a pool's own source are plain, even if expandable segments are on.
class PlainSource final : public SegmentSource {
 public:
  explicit PlainSource(Device& device) : device_(device) {}
  Result<DeviceAddress> allocate(size_t bytes, StreamId) override {
    return device_.allocate(bytes);
  }
  void free(DeviceAddress address, size_t) override { EXPECT_TRUE(device_.free(address).ok()); }

 private:
  Device& device_;
};

TEST_F(ExpandableTest, SegmentsOfSourcesAreSplitLikePlainOnes) {
  AllocatorOptions options;
  options.expandable_segments = true;
  options.max_split_bytes = 30 * kMiB;
  start(options);
  const PoolId pool{0, 1};
  must(engine_->create_pool(pool, {.source = std::make_shared<PlainSource>(device())}));
  route(pool);
  EXPECT_EQ(allocate(11 * kMiB)->bytes, 12 * kMiB) << "1 MiB is not split off";
  EXPECT_EQ(allocate(31 * kMiB - 512)->bytes, 32 * kMiB) << "not split from max_split_bytes on";
  EXPECT_EQ(allocate(10 * kMiB + 512)->bytes, 10 * kMiB + 512) << "2 MiB - 512 B are split off";
}

TEST_F(ExpandableTest, LentBlocksAreSplitLikePlainOnes) {
  start_expandable();
  const PoolId pool{0, 1};
  must(engine_->create_pool(
      pool, {.source = std::make_shared<PlainSource>(device()), .use_on_oom = true}));
  route(pool);
  const DeviceAddress cached = cache(12 * kMiB);
  end_route(pool);
  inject_out_of_memory(DeviceCall::kCreate, 1);
  Block* lent = allocate(11 * kMiB);
  EXPECT_EQ(lent->address, cached);
  EXPECT_EQ(lent->bytes, 12 * kMiB) << "1 MiB is not split off";
}

TEST_F(ExpandableTest, RetriedAccessorIsAddedOnce) {
  start_expandable();
  allocate(8 * kMiB);
  allocate(512);  // another segment, for small blocks
  machine_->inject({.call = DeviceCall::kSetAccess, .nth = 2});
  EXPECT_FALSE(engine_->add_accessor(DeviceIndex(1)).ok());
  EXPECT_FALSE(engine_->is_accessor(DeviceIndex(1)));
  must(engine_->add_accessor(DeviceIndex(1)));
  const uint64_t before = calls(DeviceCall::kSetAccess);
  allocate(40 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kSetAccess) - before, 2u) << "once for each device";
}

}  // namespace
}  // namespace ashlar::classic
