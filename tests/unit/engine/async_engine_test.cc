// SPDX-License-Identifier: Apache-2.0
//
// Tests of the async engine: its driver calls, waits and limitations. The contract suite tests the
// behaviour that all engines share.
#include "engine/async/async_engine.h"

#include <gmock/gmock.h>

#include "ashlar/allocator.h"
#include "engine/factory/make_engine.h"
#include "unit/device/gpu_fixture.h"
#include "unit/engine/sim_fixture.h"

namespace ashlar {
namespace {

using enum DeviceCall;
using testing::AllOf;
using testing::HasSubstr;

constexpr PoolId kPool{0, 1};

class AsyncEngineTest : public SimFixture {
 protected:
  AsyncEngineTest() {
    make_machine();
    start({});
  }
  void start(const AllocatorOptions& options) {
    engine_.reset();
    engine_ = *AsyncEngine::create(device(), options);
    reset_call_counts();
  }
  void TearDown() override {
    machine_->clear_faults();
    must(engine_->validate());
    engine_.reset();
    EXPECT_EQ(used_bytes(), 0U) << "the engine kept memory of the device";
    counts_at_reset_ = {};
    EXPECT_EQ(calls(kAllocateAsync), calls(kFreeAsync));
  }

  Block* allocate(size_t bytes, StreamId stream = kDefaultStream) {
    Result<Block*> block = engine_->allocate({bytes, stream});
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    return block.ok() ? *block : nullptr;
  }
  Status allocation_error(size_t bytes, StreamId stream = kDefaultStream) {
    return engine_->allocate({bytes, stream}).status();
  }
  void free(Block* block) { must(engine_->free(block)); }
  void route(PoolId pool) {
    must(engine_->begin_routing(pool, [](StreamId) { return true; }));
  }
  void end_route(PoolId pool) { must(engine_->end_routing(pool)); }
  void begin_capture(StreamId stream) {
    engine_->capture_began();
    must(device().begin_capture(stream, CaptureMode::kGlobal));
  }
  void end_capture(StreamId stream) {
    EXPECT_TRUE(device().end_capture(stream).ok()) << "the capture was broken";
    must(engine_->capture_ended());
  }
  size_t reserved_bytes() {
    return static_cast<size_t>(engine_->stats().reserved_bytes.all.current);
  }
  size_t trim_to(size_t reserved, TrimWait wait = TrimWait::kNever) {
    const Result<size_t> given = engine_->trim_to({reserved, wait, {}});
    EXPECT_TRUE(given.ok()) << given.status().to_string();
    return given.ok() ? *given : 0;
  }
  uint64_t waits() {
    return calls(kSynchronizeStream) + calls(kSynchronizeEvent) + calls(kSynchronizeDevice);
  }

  std::unique_ptr<AsyncEngine> engine_;
};

// --- driver calls

TEST_F(AsyncEngineTest, AllocatesAndFreesInStreamOrder) {
  const StreamId busy = busy_stream();
  for (int i = 0; i < 3; ++i) free(allocate(5 * kMiB, busy));
  EXPECT_EQ(calls(kAllocateAsync), 3U);
  EXPECT_EQ(calls(kFreeAsync), 3U);
  EXPECT_EQ(calls(kAllocate), 0U);
  EXPECT_EQ(waits(), 0U);
  EXPECT_EQ(engine_->stats().active.all.current, 0);
  finish(busy);
}

TEST_F(AsyncEngineTest, DefersFreeUntilUsingStreamsFinish) {
  const StreamId busy = busy_stream();
  Block* block = allocate(kMiB);
  must(engine_->record_stream(block, {&device(), busy}));
  free(block);
  EXPECT_EQ(calls(kFreeAsync), 0U);
  EXPECT_EQ(calls(kRecordEvent), 1U);
  free(allocate(512));
  EXPECT_EQ(calls(kFreeAsync), 1U) << "only the free of the small block";
  EXPECT_EQ(waits(), 0U);
  finish(busy);
  free(allocate(512));
  EXPECT_EQ(calls(kFreeAsync), 3U);
  EXPECT_EQ(engine_->stats().active.all.current, 0);
}

TEST_F(AsyncEngineTest, BlocksHaveExactSizesAndOwnSegments) {
  const Block* block = allocate(1000);
  EXPECT_EQ(block->bytes, 1000U);
  const std::vector<SnapshotSegment> segments = engine_->segments();
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].total_bytes, 1000U);
  EXPECT_EQ(engine_->block_memory(block).origin, BlockMemory::Origin::kSource);
}

// --- statistics

TEST_F(AsyncEngineTest, ReservedBytesComeFromTheDriver) {
  const Block* small = allocate(1000);
  EXPECT_GT(reserved_bytes(), small->bytes) << "the driver rounds";
  EXPECT_EQ(reserved_bytes(), device().driver_pool_stats()->reserved_bytes);
  free(allocate(40 * kMiB));
  EXPECT_EQ(engine_->stats().allocated_bytes.all.current, 1000);
  EXPECT_EQ(reserved_bytes(), device().driver_pool_stats()->reserved_bytes);
  EXPECT_GE(reserved_bytes(), 40 * kMiB) << "the driver keeps it";
  const AllocatorStats stats = engine_->stats();
  EXPECT_EQ(stats.pools.at(PoolId{}).reserved_bytes.all.current, stats.reserved_bytes.all.current);
  EXPECT_EQ(stats.reserved_bytes.small_pool.current + stats.reserved_bytes.large_pool.current,
            stats.reserved_bytes.all.current);
}

TEST_F(AsyncEngineTest, PeaksIncludeDriverAndPrivatePools) {
  free(allocate(100 * kMiB));
  must(engine_->trim());
  const auto peak = static_cast<size_t>(engine_->stats().reserved_bytes.all.peak);
  EXPECT_EQ(peak, 100 * kMiB);
  engine_->reset_peak_stats();
  EXPECT_EQ(engine_->stats().reserved_bytes.all.peak, 0);
  route(kPool);
  allocate(20 * kMiB);
  end_route(kPool);
  EXPECT_EQ(reserved_bytes(), 20 * kMiB);
  EXPECT_EQ(engine_->stats().reserved_bytes.all.peak, static_cast<int64_t>(20 * kMiB));
}

// --- trimming

TEST_F(AsyncEngineTest, TrimWaitsAndEmptiesTheDriverPool) {
  const StreamId stream = new_stream();
  must(machine_->pause_stream_until_waited(kDevice, stream));
  Block* block = allocate(40 * kMiB, stream);
  work(device(), stream);
  free(block);
  free(allocate(20 * kMiB));
  EXPECT_EQ(used_bytes(), 60 * kMiB);
  must(engine_->trim());
  EXPECT_EQ(used_bytes(), 0U);
  EXPECT_EQ(reserved_bytes(), 0U);
}

TEST_F(AsyncEngineTest, TrimOfPrivatePoolKeepsDriverPool) {
  free(allocate(40 * kMiB));
  route(kPool);
  free(allocate(20 * kMiB));
  end_route(kPool);
  must(engine_->release_pool(kPool));
  must(engine_->trim(kPool));
  EXPECT_EQ(used_bytes(), 40 * kMiB);
}

TEST_F(AsyncEngineTest, TrimToReleasesPrivatePoolsFirst) {
  const StreamId busy = new_stream();
  Block* used = allocate(30 * kMiB, busy);
  keep_busy(busy);
  free(used);
  free(allocate(40 * kMiB));
  route(kPool);
  free(allocate(20 * kMiB));
  end_route(kPool);
  must(engine_->release_pool(kPool));
  must(device().synchronize_stream(kDefaultStream));
  reset_call_counts();
  EXPECT_EQ(reserved_bytes(), 90 * kMiB);
  EXPECT_EQ(trim_to(90 * kMiB), 0U);
  EXPECT_EQ(trim_to(30 * kMiB), 40 * kMiB) << "the pool's plain memory waits for every stream";
  EXPECT_EQ(waits(), 0U);
  finish(busy);
  EXPECT_EQ(trim_to(30 * kMiB), 20 * kMiB) << "the pool's segment must be released first";
  EXPECT_EQ(device().driver_pool_stats()->reserved_bytes, 30 * kMiB);
  EXPECT_EQ(trim_to(0), 30 * kMiB);
}

TEST_F(AsyncEngineTest, TrimToWaitsIfAllowed) {
  const StreamId stream = new_stream();
  must(machine_->pause_stream_until_waited(kDevice, stream));
  Block* block = allocate(30 * kMiB, stream);
  work(device(), stream);
  free(block);
  EXPECT_EQ(trim_to(0), 0U);
  EXPECT_EQ(trim_to(0, TrimWait::kForWork), 30 * kMiB);
}

// --- limits

TEST_F(AsyncEngineTest, FullDeviceReclaimsDriverCache) {
  free(allocate(800 * kMiB));
  route(kPool);
  allocate(600 * kMiB);
  end_route(kPool);
  EXPECT_EQ(used_bytes(), 600 * kMiB);
}

TEST_F(AsyncEngineTest, LimitIncludesDriverCache) {
  must(engine_->set_memory_fraction(0.5));
  free(allocate(400 * kMiB, new_stream()));
  route(kPool);
  allocate(200 * kMiB);
  EXPECT_LE(used_bytes(), kGiB / 2) << "in a private pool";
  end_route(kPool);
  allocate(200 * kMiB);
  free(allocate(100 * kMiB));
  allocate(50 * kMiB);
  EXPECT_LE(used_bytes(), kGiB / 2) << "in the default pool";
  const Status full = allocation_error(200 * kMiB);
  expect_kind(full, StatusKind::kOutOfMemory);
  EXPECT_LE(used_bytes(), kGiB / 2);
}

TEST_F(AsyncEngineTest, DriverCacheIsTrimmedAtTheLimitWithoutWait) {
  must(engine_->set_memory_fraction(0.5));
  free(allocate(400 * kMiB));
  must(device().synchronize_stream(kDefaultStream));
  reset_call_counts();
  // The size is less than half of the cached block, so the simulated driver does not reuse that
  // block.
  allocate(150 * kMiB);
  EXPECT_LE(used_bytes(), kGiB / 2);
  EXPECT_EQ(waits(), 0U);
}

TEST_F(AsyncEngineTest, OutOfMemoryMessageHasNumbers) {
  allocate(kGiB - 64 * kMiB);
  const Status full = allocation_error(100 * kMiB);
  expect_kind(full, StatusKind::kOutOfMemory);
  EXPECT_THAT(full.message(), AllOf(HasSubstr("tried to allocate 100"), HasSubstr("64.00 MiB free"),
                                    HasSubstr("960.00 MiB is allocated")));
  EXPECT_EQ(engine_->stats().ooms, 1);
}

// --- captures

TEST_F(AsyncEngineTest, UnroutedCaptureAllocationFailsWithAdvice) {
  const StreamId stream = new_stream();
  begin_capture(stream);
  const Status refusal = allocation_error(kMiB, stream);
  expect_kind(refusal, StatusKind::kInvalidArgument);
  EXPECT_THAT(refusal.message(), AllOf(HasSubstr("is capturing"), HasSubstr("begin_routing")));
  end_capture(stream);
  free(allocate(kMiB, stream));
}

TEST_F(AsyncEngineTest, PrivatePoolsServeCaptures) {
  const StreamId stream = new_stream();
  route(kPool);
  begin_capture(stream);
  free(allocate(kMiB, stream));
  end_capture(stream);
  end_route(kPool);
  EXPECT_EQ(calls(kAllocateAsync), 0U);
  EXPECT_EQ(calls(kAllocate), 1U);
}

TEST_F(AsyncEngineTest, RetriesFreesAfterCapture) {
  const StreamId stream = new_stream();
  Block* block = allocate(40 * kMiB, stream);
  begin_capture(stream);
  free(block);
  EXPECT_EQ(calls(kFreeAsync), 0U);
  must(engine_->trim());
  end_capture(stream);
  free(allocate(512));
  EXPECT_EQ(calls(kFreeAsync), 2U) << "with the next allocation";
  must(engine_->trim());
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(AsyncEngineTest, TrimSkipsCapturingStreams) {
  const StreamId stream = new_stream();
  free(allocate(40 * kMiB, stream));
  begin_capture(stream);
  must(engine_->trim());
  end_capture(stream);
}

// --- failures

TEST_F(AsyncEngineTest, ReportsFailedFreeOnceAndRetries) {
  Block* block = allocate(40 * kMiB);
  machine_->inject({.call = kFreeAsync});
  free(block);
  expect_kind(engine_->trim(), StatusKind::kDeviceFault);
  EXPECT_EQ(used_bytes(), 0U);
  must(engine_->trim());
  EXPECT_EQ(calls(kFreeAsync), 1U);
}

TEST_F(AsyncEngineTest, TrimReclaimsMemoryOfDestroyedStreams) {
  const StreamId freed_before = new_stream();
  const StreamId freed_after = new_stream();
  Block* first = allocate(40 * kMiB, freed_before);
  Block* block = allocate(40 * kMiB, freed_after);
  free(first);
  must(device().destroy_stream(freed_before));
  must(device().destroy_stream(freed_after));
  free(block);
  free(allocate(512));
  EXPECT_GE(used_bytes(), 80 * kMiB);
  must(engine_->trim());
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(AsyncEngineTest, RejectsOtherAccessors) {
  const Status refusal = engine_->add_accessor(DeviceIndex(1));
  expect_kind(refusal, StatusKind::kUnsupported);
  EXPECT_THAT(refusal.message(), HasSubstr("use engine:paged or engine:classic"));
  EXPECT_FALSE(engine_->is_accessor(DeviceIndex(1)));
  must(engine_->add_accessor(kDevice));
}

TEST_F(AsyncEngineTest, RejectsPlugin) {
  AllocatorOptions options = parse_options("engine:async,plugin_alloc:a,plugin_free:b");
  options.plugin.library = "libmy.so";
  const Status refusal = make_engine(device(), options).status();
  expect_kind(refusal, StatusKind::kInvalidArgument);
  EXPECT_THAT(refusal.message(), HasSubstr("engine:async takes its memory from the driver's pool"));
}

// --- vendor devices

class AsyncOnCudaTest : public CudaTest {};

TEST_F(AsyncOnCudaTest, CreateFailsWithoutDriverPool) {
  restart({.stream_ordered_pool = false});
  try {
    const Allocator allocator(device(), parse_options("engine:async"));
    ADD_FAILURE() << "it was created";
  } catch (const InvalidArgument& refusal) {
    EXPECT_THAT(refusal.what(), AllOf(HasSubstr("stream-ordered pool"),
                                      HasSubstr("use engine:paged or engine:classic")));
  }
}

TEST_F(AsyncOnCudaTest, ProvidesHistoryAndSnapshots) {
  Allocator allocator(device(), parse_options("engine:async"));
  allocator.history().start();
  const Buffer kept = allocator.allocate(3000);
  allocator.allocate(500).reset();
  EXPECT_EQ(allocator.stats().allocated_bytes.all.peak, 3500);
  const Snapshot snapshot = allocator.snapshot();
  ASSERT_EQ(snapshot.segments.size(), 1U);
  EXPECT_EQ(snapshot.segments[0].blocks.size(), 1U);
  EXPECT_GE(snapshot.device_traces[0].size(), 6U);
  EXPECT_THROW(allocator.sharing().share(kept), InvalidArgument);
}

}  // namespace
}  // namespace ashlar
