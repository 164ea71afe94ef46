// SPDX-License-Identifier: Apache-2.0
//
// Tests of the steps by which the engine reclaims memory when the device is full: their order and
// counters.
#include <gmock/gmock.h>

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

using enum TraceAction;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ReclaimTest : public ClassicFixture {
 protected:
  static AllocatorOptions compatible() {
    AllocatorOptions options;
    options.pytorch_compatible = true;
    return options;
  }
  // Returns a stream with so much work that polling alone does not complete it.
  StreamId slow_stream() {
    const StreamId stream = new_stream();
    for (int i = 0; i < 1000; ++i) must(device().call_host(stream, [] {}));
    return stream;
  }
};

TEST_F(ReclaimTest, RetriesAfterReleasingTheCache) {
  start(compatible());
  cache(20 * kMiB);
  device_operations();
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  allocate(40 * kMiB);
  EXPECT_THAT(device_operations(), ElementsAre(kSegmentFree, kSegmentAlloc));
  EXPECT_EQ(stats().alloc_retries, 1);
  EXPECT_EQ(stats().ooms, 0);
  EXPECT_EQ(stats().sync_all_streams, 1);
}

TEST_F(ReclaimTest, ReportsWhenDeviceStaysFull) {
  start(compatible());
  Block* kept = allocate(20 * kMiB);
  cache(30 * kMiB);
  device_operations();
  inject_out_of_memory(DeviceCall::kAllocate, 2);
  const Status status = allocation_error(40 * kMiB);
  EXPECT_EQ(status.kind(), StatusKind::kOutOfMemory);
  EXPECT_THAT(device_operations(), ElementsAre(kSegmentFree, kOom));
  EXPECT_EQ(stats().alloc_retries, 1);
  EXPECT_EQ(stats().ooms, 1);
  EXPECT_THAT(status.message(), HasSubstr("40.00 MiB"));
  EXPECT_THAT(status.message(), HasSubstr("20.00 MiB is allocated"));
  free(kept);
}

TEST_F(ReclaimTest, ReportHasCapacityLimitAndAdvice) {
  AllocatorOptions options = compatible();
  options.memory_fraction = 0.5;
  start(options, 400 * kMiB);
  Block* kept = allocate(12 * kMiB);
  Block* other = allocate(100 * kMiB);
  Block* part = allocate(2 * kMiB);  // leaves 18 MiB of its segment unused
  const std::string message = allocation_error(120 * kMiB).message();
  for (const char* wanted : {"tried to allocate 120.00 MiB", "device 0", "400.00 MiB in total",
                             "268.00 MiB free", "limit of this process is 200.00 MiB",
                             "114.00 MiB is allocated", "18.00 MiB is reserved"}) {
    EXPECT_THAT(message, HasSubstr(wanted));
  }
  EXPECT_THAT(message, Not(HasSubstr("expandable_segments:True"))) << "18 MiB would not help";
  inject_out_of_memory(DeviceCall::kAllocate, 2);
  EXPECT_THAT(allocation_error(14 * kMiB, new_stream()).message(),
              HasSubstr("expandable_segments:True"));
  free(kept);
  free(other);
  free(part);
}

TEST_F(ReclaimTest, ReportNamesMemoryCachedByPrivatePools) {
  start();
  const PoolId pool{0, 1};
  route(pool);
  Block* kept = allocate(30 * kMiB);
  cache(40 * kMiB);
  end_route(pool);
  inject_out_of_memory(DeviceCall::kAllocate, 2);
  const std::string message = allocation_error(50 * kMiB).message();
  EXPECT_THAT(message, HasSubstr("30.00 MiB is allocated; 40.00 MiB is reserved but not allocated, "
                                 "of which 40.00 MiB is cached by private pools."));
  free(kept);
}

TEST_F(ReclaimTest, RunsCallbacksBeforeDeviceCall) {
  start();
  Block* freed_by_callback = allocate(20 * kMiB);
  const DeviceAddress address = freed_by_callback->address;
  int asked = 0;
  engine_->add_free_memory_callback([&] {
    ++asked;
    if (freed_by_callback != nullptr)
      must(engine_->free(std::exchange(freed_by_callback, nullptr)));
    return true;
  });
  EXPECT_EQ(allocate(20 * kMiB)->address, address);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(calls(DeviceCall::kAllocate), 1U);
}

TEST_F(ReclaimTest, UncachedRequestRunsCallbacksBeforeOom) {
  start(compatible(), 256 * kMiB);
  engine_->set_caching(false);
  Block* kept = allocate(200 * kMiB);
  int call_count = 0;
  engine_->add_free_memory_callback([&] {
    ++call_count;
    if (kept == nullptr) return false;
    must(engine_->free(std::exchange(kept, nullptr)));
    return true;
  });
  free(allocate(100 * kMiB));
  EXPECT_EQ(call_count, 1);
  EXPECT_EQ(stats().alloc_retries, 0);
  EXPECT_TRUE(allocation_error(300 * kMiB).is_out_of_memory());
  EXPECT_EQ(call_count, 2);
}

TEST_F(ReclaimTest, UselessCallbackCausesNoSearch) {
  start();
  Block* freed_by_callback = allocate(20 * kMiB);
  const DeviceAddress address = freed_by_callback->address;
  engine_->add_free_memory_callback([&] {
    if (freed_by_callback != nullptr)
      must(engine_->free(std::exchange(freed_by_callback, nullptr)));
    return false;
  });
  EXPECT_NE(allocate(20 * kMiB)->address, address);
}

TEST_F(ReclaimTest, BorrowsFromOverflowPoolsBeforeFlush) {
  start(compatible());
  const PoolId lender{0, 1};
  must(engine_->create_pool(lender, {.use_on_oom = true}));
  route(lender);
  const DeviceAddress lent = cache(40 * kMiB);
  end_route(lender);
  cache(20 * kMiB);
  device_operations();
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  EXPECT_EQ(allocate(40 * kMiB)->address, lent);
  EXPECT_THAT(device_operations(), ElementsAre());
  EXPECT_EQ(stats().alloc_retries, 0);
}

TEST_F(ReclaimTest, ReleasesOversizeBlocksBeforeFlush) {
  AllocatorOptions options = compatible();
  options.max_split_bytes = 30 * kMiB;
  start(options);
  cache(20 * kMiB);
  const DeviceAddress first = cache(100 * kMiB);
  Block* other = allocate(150 * kMiB);
  free(other);
  trace_.clear();
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  allocate(60 * kMiB);
  ASSERT_EQ(trace_.size(), 3U);
  EXPECT_EQ(trace_[0].action, kSegmentFree);
  EXPECT_EQ(trace_[0].address, first) << "the smallest that is large enough";
  EXPECT_EQ(trace_[1].action, kSegmentAlloc);
  EXPECT_EQ(stats().alloc_retries, 0);
  EXPECT_EQ(stats().sync_all_streams, 0);
}

TEST_F(ReclaimTest, ReleasesOversizeBlocksLargestFirst) {
  AllocatorOptions options = compatible();
  options.max_split_bytes = 30 * kMiB;
  start(options);
  Block* small = allocate(40 * kMiB);
  Block* middle = allocate(60 * kMiB);
  Block* large = allocate(80 * kMiB);
  const DeviceAddress middle_address = middle->address;
  const DeviceAddress large_address = large->address;
  for (Block* block : {small, middle, large}) free(block);
  trace_.clear();
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  allocate(130 * kMiB);
  ASSERT_EQ(trace_.size(), 4U);
  EXPECT_EQ(trace_[0].address, large_address);
  EXPECT_EQ(trace_[1].address, middle_address);
  EXPECT_EQ(trace_[2].action, kSegmentAlloc);
}

TEST_F(ReclaimTest, KeepsSplitOversizeSegment) {
  AllocatorOptions options = compatible();
  options.large_segment_bytes = 128 * kMiB;
  options.max_split_bytes = 64 * kMiB;
  options.max_non_split_rounding_bytes = 20 * kMiB;
  start(options);
  Block* kept = allocate(2 * kMiB);  // leaves 126 MiB free in a split segment above the limit
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  allocate(70 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kFree), 0U);
  free(kept);
}

TEST_F(ReclaimTest, WaitsForPendingFreesBeforeFlush) {
  start({}, 64 * kMiB);
  const StreamId slow = slow_stream();
  Block* block = allocate(40 * kMiB);
  const DeviceAddress address = block->address;
  use_on(block, slow);
  free(block);
  cache(512);
  device_operations();
  EXPECT_EQ(allocate(40 * kMiB)->address, address);
  EXPECT_THAT(device_operations(), ElementsAre()) << "the cache stays warm";
  EXPECT_EQ(stats().sync_all_streams, 1);
  EXPECT_EQ(stats().alloc_retries, 0);
}

TEST_F(ReclaimTest, CompatModeFlushesWithoutSearch) {
  start(compatible(), 64 * kMiB);
  const StreamId slow = slow_stream();
  Block* block = allocate(40 * kMiB);
  use_on(block, slow);
  free(block);
  device_operations();
  allocate(40 * kMiB);
  EXPECT_THAT(device_operations(), ElementsAre(kSegmentFree, kSegmentAlloc));
  EXPECT_EQ(stats().sync_all_streams, 1);
  EXPECT_EQ(stats().alloc_retries, 1);
}

// --- other failures

TEST_F(ReclaimTest, DeviceFaultSkipsReclaiming) {
  start();
  cache(20 * kMiB);
  machine_->inject({.call = DeviceCall::kAllocate});
  EXPECT_EQ(allocation_error(40 * kMiB).kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(calls(DeviceCall::kFree), 0U);
  EXPECT_EQ(stats().ooms, 0);
  EXPECT_EQ(stats().alloc_retries, 0);
}

TEST_F(ReclaimTest, KeepsSegmentWhenReleaseFails) {
  start();
  const DeviceAddress address = cache(20 * kMiB);
  machine_->inject({.call = DeviceCall::kFree});
  EXPECT_EQ(engine_->trim({}).kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(stats().reserved_bytes.all.current, static_cast<int64_t>(20 * kMiB));
  EXPECT_EQ(allocate(20 * kMiB)->address, address);
}

// --- limits

TEST_F(ReclaimTest, LimitPreventsDeviceCall) {
  AllocatorOptions options = compatible();
  options.memory_fraction = 0.5;
  start(options, 100 * kMiB);
  Block* kept = allocate(30 * kMiB);
  const Status status = allocation_error(22 * kMiB);
  EXPECT_EQ(status.kind(), StatusKind::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("limit of this process is 50.00 MiB"));
  EXPECT_EQ(calls(DeviceCall::kAllocate), 1U);
  EXPECT_EQ(stats().alloc_retries, 1) << "the limit triggers the same reclaim steps";
  EXPECT_EQ(allocate(20 * kMiB)->bytes, 20 * kMiB) << "exactly the limit";
  free(kept);
}

TEST_F(ReclaimTest, LimitFlushesTheCache) {
  AllocatorOptions options = compatible();
  options.memory_fraction = 0.5;
  start(options, 100 * kMiB);
  cache(40 * kMiB);
  allocate(44 * kMiB);
  EXPECT_EQ(stats().reserved_bytes.all.current, static_cast<int64_t>(44 * kMiB));
}

TEST_F(ReclaimTest, ChangesAndLiftsTheLimit) {
  start({}, 100 * kMiB);
  must(engine_->set_memory_fraction(0.25));
  EXPECT_EQ(engine_->memory_fraction(), 0.25);
  EXPECT_EQ(allocation_error(40 * kMiB).kind(), StatusKind::kOutOfMemory);
  must(engine_->set_memory_fraction(1));
  allocate(40 * kMiB);
}

TEST_F(ReclaimTest, RejectsFractionOutOfRange) {
  start();
  for (double fraction : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(engine_->set_memory_fraction(fraction).kind(), StatusKind::kInvalidArgument);
  }
  EXPECT_EQ(engine_->memory_fraction(), 1.0);
}

TEST_F(ReclaimTest, RejectionSkipsReclaiming) {
  AllocatorOptions options;
  options.memory_fraction = 0.5;
  options.reject_before_device_oom = true;
  start(options, 100 * kMiB);
  cache(40 * kMiB);
  int rejections = 0;
  int ooms = 0;
  engine_->add_rejection_observer([&](const OomNotice& notice) {
    ++rejections;
    EXPECT_EQ(notice.wanted_bytes, 44 * kMiB);
    EXPECT_EQ(notice.limit_bytes, 50 * kMiB);
  });
  engine_->add_oom_observer([&](const OomNotice&) { ++ooms; });
  EXPECT_EQ(allocation_error(44 * kMiB).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(rejections, 1);
  EXPECT_EQ(ooms, 0);
  EXPECT_EQ(stats().oom_rejections, 1);
  EXPECT_EQ(stats().ooms, 0);
  EXPECT_EQ(stats().alloc_retries, 0);
  EXPECT_EQ(stats().reserved_bytes.all.current, static_cast<int64_t>(40 * kMiB)) << "no flush";
}

// --- garbage collection

class GarbageCollectionTest : public ClassicFixture {
 protected:
  static AllocatorOptions collecting_options() {
    AllocatorOptions options;
    options.memory_fraction = 0.9;
    options.garbage_collection_threshold = 0.5;
    return options;
  }
};

TEST_F(GarbageCollectionTest, ReleasesOldSegmentsAboveThreshold) {
  start(collecting_options(), 400 * kMiB);  // collects above 180 MiB
  Block* split = allocate(4 * kMiB);        // splits a large segment, which stays
  Block* kept = allocate(50 * kMiB);
  cache(512);  // a small segment stays, too
  Block* first = allocate(60 * kMiB);
  const DeviceAddress old = first->address;
  free(first);
  for (int i = 0; i < 10; ++i) cache(80 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kFree), 0U) << "no device call above the threshold yet";
  trace_.clear();
  allocate(90 * kMiB);
  ASSERT_EQ(trace_.size(), 3U);
  EXPECT_EQ(trace_[0].action, TraceAction::kSegmentFree);
  EXPECT_EQ(trace_[0].address, old);
  EXPECT_EQ(trace_[1].action, TraceAction::kSegmentAlloc) << "the recent one must stay";
  EXPECT_EQ(stats().reserved_bytes.small_pool.current, static_cast<int64_t>(2 * kMiB));
  free(split);
  free(kept);
}

TEST_F(GarbageCollectionTest, SkipsExpandableSegments) {
  AllocatorOptions options = collecting_options();
  options.expandable_segments = true;
  start(options, 400 * kMiB);
  const StreamId stream = new_stream();
  cache(100 * kMiB);
  allocate(100 * kMiB, stream);
  allocate(60 * kMiB, stream);  // above the threshold
  EXPECT_EQ(calls(DeviceCall::kUnmap), 0U);
}

TEST_F(GarbageCollectionTest, ReleasesNothingBelowThreshold) {
  start(collecting_options(), 400 * kMiB);
  cache(60 * kMiB);
  allocate(100 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kFree), 0U);
}

TEST_F(GarbageCollectionTest, ReleasesNothingWithoutLimit) {
  AllocatorOptions options = collecting_options();
  options.memory_fraction = 1;
  start(options, 400 * kMiB);
  cache(60 * kMiB);
  Block* fresh = allocate(200 * kMiB);
  allocate(100 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kFree), 0U);
  free(fresh);
}

TEST_F(ReclaimTest, ReportsTheFirstDeferredError) {
  start();
  cache(20 * kMiB);
  cache(40 * kMiB);
  machine_->inject({.call = DeviceCall::kFree, .status = Status::device_fault("free", 1, "first")});
  machine_->inject(
      {.call = DeviceCall::kFree, .nth = 2, .status = Status::device_fault("free", 2, "second")});
  const Status reported = engine_->trim({});
  EXPECT_NE(reported.message().find("first"), std::string::npos) << reported.to_string();
  trim();
}

}  // namespace
}  // namespace ashlar::classic
