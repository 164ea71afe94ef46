// SPDX-License-Identifier: Apache-2.0
//
// The native PyTorch allocator: allocation, limits, statistics, pools and sharing.
// native_history_test.cc tests history, snapshots and hooks.
//
// The file is long because it calls most functions of the interface.
#include "api/torch/native/native_allocator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <thread>
#include <unordered_set>
#include <vector>

#include "native_allocator_fixture.h"

namespace {
bool is_child = false;
}  // namespace

// Turns LeakSanitizer off in the forked child; see tests/shmem/rma.c.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return is_child ? 1 : 0; }

namespace ashlar::torch::native {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST_F(NativeAllocatorTest, IsPyTorchsAllocatorForCudaDevices) {
  EXPECT_EQ(c10::GetAllocator(c10::DeviceType::CUDA), &torch());
  EXPECT_TRUE(torch().initialized());
  EXPECT_EQ(torch().name(), "native");
}

TEST_F(NativeAllocatorTest, RefusesASecondInstallation) {
  EXPECT_THAT(error_of([] { install(*ashlar_torch_bridge(kBridgeVersion)); }),
              HasSubstr("already uses the GPU"));
}

TEST_F(NativeAllocatorTest, RefusesAnotherBridgeVersion) {
  EXPECT_EQ(ashlar_torch_bridge(kBridgeVersion + 1), nullptr);
}

TEST_F(NativeAllocatorTest, AllocatesOnCurrentDeviceAndFreesWithDeleter) {
  {
    const c10::DataPtr memory = torch().allocate(3 * kMiB);
    EXPECT_NE(memory.get(), nullptr);
    EXPECT_EQ(memory.get(), memory.get_context());
    EXPECT_EQ(memory.get_deleter(), torch().raw_deleter());
    EXPECT_EQ(memory.device(), c10::Device(c10::DeviceType::CUDA, 0));
    EXPECT_GE(allocated(), static_cast<int64_t>(3 * kMiB));
  }
  EXPECT_EQ(allocated(), 0);
  state().current_device = 1;
  const c10::DataPtr other = torch().allocate(kMiB);
  EXPECT_EQ(other.device().index, 1);
  EXPECT_EQ(allocated(0), 0);
  EXPECT_GT(allocated(1), 0);
}

TEST_F(NativeAllocatorTest, ZeroBytesYieldNull) {
  const c10::DataPtr memory = torch().allocate(0);
  EXPECT_EQ(memory.get(), nullptr);
  EXPECT_EQ(torch().raw_alloc(0), nullptr);
  EXPECT_EQ(torch().raw_alloc_with_stream(0, nullptr), nullptr);
  torch().raw_delete(nullptr);
}

TEST_F(NativeAllocatorTest, RawMemoryIsFreedOnceOnly) {
  void* memory = torch().raw_alloc_with_stream(kMiB, nullptr);
  torch().raw_delete(memory);
  EXPECT_THAT(error_of([&] { torch().raw_delete(memory); }), HasSubstr("invalid device pointer"));
  int local = 0;
  EXPECT_THAT(error_of([&] { torch().raw_delete(&local); }), HasSubstr("invalid device pointer"));
}

TEST_F(NativeAllocatorTest, OutOfMemoryHasPyTorchsMessage) {
  const PoolIdPair pool = new_pool();
  begin(pool);
  { const c10::DataPtr cached = torch().allocate(4 * kMiB); }
  torch().endAllocateToPool(0, pool);
  static std::vector<std::vector<int64_t>> notices;  // observers stay registered
  notices.clear();
  torch().attachOutOfMemoryObserver([](int64_t device, size_t, size_t limit, size_t) {
    notices.push_back({device, static_cast<int64_t>(limit)});
  });
  std::string message;
  try {
    (void)torch().allocate(4 * kDeviceBytes);
  } catch (const c10::OutOfMemoryError& failure) {
    message = failure.what();
  }
  EXPECT_THAT(message, HasSubstr("CUDA out of memory. Tried to allocate 2048.00 MiB. GPU 0 has a "
                                 "total capacity of 512.00 MiB"));
  EXPECT_THAT(message, HasSubstr("allocated in private pools (e.g., CUDA Graphs)"));
  EXPECT_THAT(message, HasSubstr("is reserved by PyTorch but unallocated"));
  EXPECT_THAT(state().oom_reports, ElementsAre(static_cast<int64_t>(4 * kDeviceBytes)));
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0][0], 0);
  EXPECT_EQ(torch().getDeviceStats(0).num_ooms, 1);
  torch().releasePool(0, pool);
  EXPECT_THAT(error_of([] { (void)torch().allocate(size_t{1} << 61); }),
              HasSubstr("more than 1EB"));
}

TEST_F(NativeAllocatorTest, MemoryFractionLimitsAllocations) {
  torch().setMemoryFraction(0.25, 0);
  EXPECT_EQ(torch().getMemoryFraction(0), 0.25);
  // PyTorch computes the fraction from the limit in bytes, which it rounds down.
  torch().setMemoryFraction(1.0 / 3, 0);
  constexpr auto kCapacity = static_cast<double>(kDeviceBytes);
  EXPECT_EQ(torch().getMemoryFraction(0), std::floor(kCapacity / 3) / kCapacity);
  torch().setMemoryFraction(0.25, 0);
  EXPECT_THAT(error_of([] { (void)torch().allocate(kDeviceBytes / 2); }), HasSubstr("allowed; "));
  torch().setMemoryFraction(1, 0);
  EXPECT_THAT(error_of([] { torch().setMemoryFraction(2, 0); }), HasSubstr("invalid fraction"));
  EXPECT_THAT(error_of([] { torch().setMemoryFraction(1, 100); }),
              HasSubstr("Invalid device argument"));
}

TEST_F(NativeAllocatorTest, EmptyCacheReleasesCachedMemory) {
  { const c10::DataPtr memory = torch().allocate(8 * kMiB); }
  EXPECT_GT(reserved(), 0);
  size_t largest = 1;
  torch().cacheInfo(0, &largest);
  EXPECT_GE(largest, 8 * kMiB);
  torch().emptyCache(kNoPool);
  EXPECT_EQ(reserved(), 0);
  state().free_bytes = 77;
  largest = 0;
  torch().cacheInfo(0, &largest);
  EXPECT_EQ(largest, 77U);
}

TEST_F(NativeAllocatorTest, DisabledCachingReturnsMemory) {
  torch().enable(false);
  EXPECT_FALSE(torch().isEnabled());
  { const c10::DataPtr memory = torch().allocate(8 * kMiB); }
  EXPECT_EQ(reserved(), 0);
  torch().enable(true);
  EXPECT_TRUE(torch().isEnabled());
}

TEST_F(NativeAllocatorTest, StatisticsMatchAllocations) {
  const c10::DataPtr large = torch().allocate(4 * kMiB);
  const c10::DataPtr small = torch().allocate(1000);
  { const c10::DataPtr freed = torch().allocate(2 * kMiB); }
  auto stats = torch().getDeviceStats(0);
  EXPECT_EQ(stats.allocation[0].current, 2);
  EXPECT_EQ(stats.allocation[0].allocated, 3);
  EXPECT_EQ(stats.allocation[0].freed, 1);
  EXPECT_EQ(stats.allocation[1].current, 1);  // the small pool
  EXPECT_EQ(stats.requested_bytes[0].current, static_cast<int64_t>(4 * kMiB + 1000));
  EXPECT_GT(stats.allocated_bytes[0].peak, stats.allocated_bytes[0].current);
  EXPECT_GE(stats.reserved_bytes[0].current, stats.allocated_bytes[0].current);
  torch().resetPeakStats(0);
  torch().resetAccumulatedStats(0);
  stats = torch().getDeviceStats(0);
  EXPECT_EQ(stats.allocated_bytes[0].peak, stats.allocated_bytes[0].current);
  EXPECT_EQ(stats.allocation[0].allocated, 0);
  EXPECT_EQ(torch().getDeviceStats(1).allocation[0].current, 0);
  EXPECT_THAT(error_of([] { (void)torch().getDeviceStats(5); }),
              HasSubstr("Invalid device argument 5: did you call init?"));
  EXPECT_THAT(error_of([] { torch().resetPeakStats(-1); }), HasSubstr("Invalid device argument"));
  EXPECT_THAT(torch().getExpandableSegmentSizes(0), Not(IsEmpty()));
}

TEST_F(NativeAllocatorTest, RecordStreamDelaysReuse) {
  void* other = nullptr;
  ASSERT_EQ(ashlar_stream_create(device_handle(0), 0, &other), ASHLAR_OK);
  {
    const c10::DataPtr memory = torch().allocate(4 * kMiB);
    ASSERT_EQ(ashlar_fill(device_handle(0), memory.get(), 1, kMiB, other), ASHLAR_OK);
    torch().recordStream(memory, c10::Stream{0, other});
  }
  ASSERT_EQ(ashlar_stream_synchronize(device_handle(0), other), ASHLAR_OK);
  const c10::DataPtr foreign(
      &other, &other, [](void*) {}, c10::Device(c10::DeviceType::CUDA, 0));
  torch().recordStream(foreign, c10::Stream{0, other});  // ignored
  torch().recordStream(torch().allocate(0), c10::Stream{0, other});
  ASSERT_EQ(ashlar_stream_destroy(device_handle(0), other), ASHLAR_OK);
}

TEST_F(NativeAllocatorTest, BaseAllocationOfMappedMemoryIsItself) {
  const c10::DataPtr memory = torch().allocate(4 * kMiB);
  size_t bytes = 0;
  EXPECT_EQ(torch().getBaseAllocation(memory.get(), &bytes), memory.get());
  EXPECT_GE(bytes, 4 * kMiB);
  int local = 0;
  EXPECT_THAT(error_of([&] { torch().getBaseAllocation(&local, &bytes); }),
              HasSubstr("invalid device pointer"));
}

TEST_F(NativeAllocatorTest, ProfilerReceivesAllocationsAndFrees) {
  state().is_profiling = true;
  void* memory = torch().raw_alloc(2 * kMiB);
  torch().raw_delete(memory);
  ASSERT_EQ(state().reports.size(), 2U);
  EXPECT_EQ(state().reports[0].memory, memory);
  EXPECT_EQ(state().reports[0].bytes, static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(state().reports[0].allocated, 2 * kMiB);
  EXPECT_EQ(state().reports[1].bytes, -static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(state().reports[1].allocated, 0U);
}

TEST_F(NativeAllocatorTest, TracerReceivesAllocationsAndFrees) {
  struct Tracer final : c10::impl::PyInterpreterVTable {
    void trace_gpu_memory_allocation(c10::DeviceType, uintptr_t memory) const override {
      events.push_back("alloc " + std::to_string(memory));
    }
    void trace_gpu_memory_deallocation(c10::DeviceType, uintptr_t memory) const override {
      events.push_back("free " + std::to_string(memory));
    }
    mutable std::vector<std::string> events;
  };
  const Tracer tracer;
  const c10::impl::PyInterpreter interpreter{&tracer};
  state().interpreter = &interpreter;
  void* memory = torch().raw_alloc(kMiB);
  torch().raw_delete(memory);
  const std::string address = std::to_string(reinterpret_cast<uintptr_t>(memory));
  EXPECT_THAT(tracer.events, ElementsAre("alloc " + address, "free " + address));
}

TEST_F(NativeAllocatorTest, FreeMemoryCallbacksRunOnMisses) {
  int calls = 0;
  state().callbacks["count"] = [&] {
    ++calls;
    return false;
  };
  const c10::DataPtr memory = torch().allocate(32 * kMiB);
  EXPECT_EQ(calls, 1);
}

TEST_F(NativeAllocatorTest, CopiesBetweenDevicesNeedAccess) {
  EXPECT_EQ(torch().memcpyAsync(nullptr, 0, nullptr, 0, 1, nullptr, false), 0);
  EXPECT_EQ(torch().memcpyAsync(nullptr, 0, nullptr, 1, 1, nullptr, true), 0);
  EXPECT_EQ(torch().memcpyAsync(nullptr, 0, nullptr, 1, 1, nullptr, false), 0);
  torch().copy_data(nullptr, nullptr, 1);
  EXPECT_THAT(state().copies, ElementsAre("async", "async", "peer", "blocking"));
  torch().enablePeerAccess(0, 1);
  torch().enablePeerAccess(0, 1);
}

// Pools.

TEST_F(NativeAllocatorTest, PoolsAreSeparateAndCounted) {
  const PoolIdPair pool = new_pool();
  EXPECT_EQ(torch().getPoolUseCount(0, pool), 0);
  torch().createOrIncrefPool(0, pool, nullptr);
  torch().createOrIncrefPool(0, pool, nullptr);
  EXPECT_EQ(torch().getPoolUseCount(0, pool), 2);
  begin(pool);
  EXPECT_EQ(torch().getPoolUseCount(0, pool), 3);
  EXPECT_THAT(error_of([&] { begin(pool); }), HasSubstr("already"));
  {
    const c10::DataPtr inside = torch().allocate(4 * kMiB);
    end(pool);
    const c10::DataPtr outside = torch().allocate(4 * kMiB);
    EXPECT_TRUE(torch().checkPoolLiveAllocations(0, pool, {inside.get()}));
    EXPECT_FALSE(torch().checkPoolLiveAllocations(0, pool, {}));
    EXPECT_FALSE(torch().checkPoolLiveAllocations(0, pool, {outside.get()}));
  }
  torch().emptyCache(kNoPool);
  EXPECT_GT(reserved(), 0);  // the pool is retained
  torch().releasePool(0, pool);
  torch().releasePool(0, pool);
  torch().emptyCache(pool);
  EXPECT_EQ(reserved(), 0);
  torch().emptyCache(pool);  // the pool does not exist any more
  EXPECT_THAT(error_of([&] { torch().endAllocateToPool(0, pool); }), HasSubstr("not routed"));
  EXPECT_THAT(error_of([&] { torch().releasePool(0, pool); }), HasSubstr("no pool"));
  EXPECT_THAT(error_of([&] { (void)torch().checkPoolLiveAllocations(0, pool, {}); }),
              HasSubstr("no pool"));
}

// A pool's own allocator, which returns host memory and has at most `limit` live segments.
class Source final : public GpuAllocator {
 public:
  explicit Source(int limit_arg) : limit(limit_arg) {}
  void* raw_alloc(size_t bytes) override {
    if (is_broken) throw std::runtime_error("the source is broken");
    if (live == limit) return nullptr;
    ++live;
    return aligned_alloc(size_t{2} << 20, bytes);
  }
  void raw_delete(void* memory) override {
    --live;
    free(memory);
  }
  c10::DataPtr allocate(size_t) override { return {nullptr, nullptr, nullptr, {kDeviceType, 0}}; }
  void copy_data(void*, const void*, std::size_t) const override {}
  void* raw_alloc_with_stream(size_t bytes, GpuStreamHandle) override { return raw_alloc(bytes); }
  void init(int) override {}
  bool initialized() override { return true; }
  double getMemoryFraction(c10::DeviceIndex) override { return 1; }
  void setMemoryFraction(double, c10::DeviceIndex) override {}
  void emptyCache(PoolIdPair) override {}
  void enable(bool) override {}
  bool isEnabled() const override { return true; }
  void cacheInfo(c10::DeviceIndex, size_t*) override {}
  void* getBaseAllocation(void* memory, size_t*) override { return memory; }
  void recordStream(const c10::DataPtr&, GpuStream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  SegmentSizes getExpandableSegmentSizes(c10::DeviceIndex) override { return {}; }
  caching::SnapshotInfo snapshot(PoolIdPair, bool) override { return {}; }
  void beginAllocateToPool(c10::DeviceIndex, PoolIdPair,
                           std::function<bool(GpuStreamHandle)>) override {}
  void endAllocateToPool(c10::DeviceIndex, PoolIdPair) override {}
  void releasePool(c10::DeviceIndex, PoolIdPair) override {}
  int getPoolUseCount(c10::DeviceIndex, PoolIdPair) override { return 0; }
  void createOrIncrefPool(c10::DeviceIndex, PoolIdPair, std::shared_ptr<GpuAllocator>) override {}
  void setUseOnOOM(c10::DeviceIndex, PoolIdPair, bool) override {}
  void setNoSplit(c10::DeviceIndex, PoolIdPair) override {}
  bool checkPoolLiveAllocations(c10::DeviceIndex, PoolIdPair,
                                const std::unordered_set<void*>&) override {
    return true;
  }
  caching::ShareableHandle shareIpcHandle(void*) override { return {}; }
  std::shared_ptr<void> getIpcDevPtr(std::string) override { return nullptr; }
  bool isHistoryEnabled() override { return false; }
  Context getContextForPointer(const void*) override { return nullptr; }
  void recordHistory(bool, caching::CreateContextFn, size_t, caching::RecordContext, bool,
                     const std::vector<std::string>&) override {}
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>&) override {}
  void pushCompileContext(std::string&) override {}
  void popCompileContext() override {}
  void setUserMetadata(const std::string&) override {}
  std::string getUserMetadata() override { return {}; }
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver) override {}
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker) override {}
  void enablePeerAccess(c10::DeviceIndex, c10::DeviceIndex) override {}
  GpuError memcpyAsync(void*, int, const void*, int, size_t, GpuStreamHandle, bool) override {
    return 0;
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex,
                                                              PoolIdPair) override {
    return nullptr;
  }
  caching::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex, std::shared_ptr<caching::AllocatorState>) override {
    return {};
  }
  std::string name() override { return "source"; }

  const int limit;
  int live = 0;
  bool is_broken = false;
};

TEST_F(NativeAllocatorTest, PoolTakesSegmentsFromItsAllocator) {
  const PoolIdPair pool = new_pool();
  const auto source = std::make_shared<Source>(1);
  torch().createOrIncrefPool(0, pool, source);
  begin(pool);
  {
    const c10::DataPtr memory = torch().allocate(4 * kMiB);
    EXPECT_EQ(source->live, 1);
    EXPECT_THAT(error_of([] { (void)torch().allocate(64 * kMiB); }), HasSubstr("out of memory"));
    EXPECT_EQ(torch().getDeviceStats(0).num_alloc_retries, 1);
  }
  end(pool);
  EXPECT_GT(source.use_count(), 1);  // the pool keeps it
  torch().releasePool(0, pool);
  torch().emptyCache(pool);
  EXPECT_EQ(source->live, 0);
  EXPECT_EQ(source.use_count(), 1);
}

TEST_F(NativeAllocatorTest, ExceptionOfPoolsAllocatorFailsTheRequest) {
  const PoolIdPair pool = new_pool();
  const auto source = std::make_shared<Source>(1);
  torch().createOrIncrefPool(0, pool, source);
  begin(pool);
  source->is_broken = true;
  EXPECT_THROW((void)torch().allocate(4 * kMiB), std::runtime_error);
  EXPECT_EQ(torch().getDeviceStats(0).num_alloc_retries, 0) << "fails without reclaiming memory";
  end(pool);
  torch().releasePool(0, pool);
  // The exception belongs to that request only.
  EXPECT_THAT(error_of([] { (void)torch().allocate(4 * kDeviceBytes); }), HasSubstr("CUDA out of"));
}

TEST_F(NativeAllocatorTest, ExceptionOfObserverReplacesOutOfMemoryError) {
  static bool throws = false;  // observers and trackers stay registered
  torch().attachOutOfMemoryObserver([](int64_t, size_t, size_t, size_t) {
    if (throws) throw std::runtime_error("from the observer");
  });
  throws = true;
  EXPECT_THROW((void)torch().allocate(4 * kDeviceBytes), std::runtime_error);
  throws = false;
  EXPECT_THROW((void)torch().allocate(4 * kDeviceBytes), c10::OutOfMemoryError);
}

TEST_F(NativeAllocatorTest, ExceptionOfTrackerIsAWarning) {
  static bool throws = false;
  torch().attachAllocatorTraceTracker([](const TorchEntry& entry) {
    if (throws && entry.action_ == TorchEntry::ALLOC) throw std::runtime_error("from the tracker");
  });
  throws = true;
  { const c10::DataPtr memory = torch().allocate(kMiB); }
  throws = false;
  EXPECT_THAT(state().warnings, ElementsAre(HasSubstr("from the tracker")));
}

TEST_F(NativeAllocatorTest, ThreadsCreateAPoolTogether) {
  const PoolIdPair pool = new_pool();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { torch().createOrIncrefPool(0, pool, nullptr); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torch().getPoolUseCount(0, pool), 4);
  for (int i = 0; i < 4; ++i) torch().releasePool(0, pool);
}

TEST_F(NativeAllocatorTest, NoSplitPoolHasOneBlockPerSegment) {
  const PoolIdPair pool = new_pool();
  torch().createOrIncrefPool(0, pool, nullptr);
  torch().setNoSplit(0, pool);
  begin(pool);
  {
    const c10::DataPtr first = torch().allocate(1000);
    const c10::DataPtr second = torch().allocate(1000);
    const auto segments = torch().snapshot(pool, false).segments;
    ASSERT_EQ(segments.size(), 2U);
    EXPECT_EQ(segments[0].blocks.size(), 1U);
  }
  end(pool);
  EXPECT_THAT(error_of([&] { torch().setNoSplit(0, pool); }), HasSubstr("has memory"));
  torch().releasePool(0, pool);
  EXPECT_THAT(error_of([&] { torch().setNoSplit(0, new_pool()); }), HasSubstr("no pool"));
}

TEST_F(NativeAllocatorTest, UseOnOomPoolServesOtherRequests) {
  const PoolIdPair pool = new_pool();
  torch().createOrIncrefPool(0, pool, nullptr);
  begin(pool);
  { const c10::DataPtr cached = torch().allocate(kDeviceBytes / 2); }
  end(pool);
  const auto allocate_most = [] { (void)torch().allocate(kDeviceBytes / 2); };
  const c10::DataPtr filler = torch().allocate(kDeviceBytes / 4);
  EXPECT_THAT(error_of(allocate_most), HasSubstr("out of memory"));
  torch().setUseOnOOM(0, pool, true);
  EXPECT_EQ(error_of(allocate_most), "no error");
  torch().setUseOnOOM(0, pool, false);
  EXPECT_THAT(error_of(allocate_most), HasSubstr("out of memory"));
  torch().releasePool(0, pool);
}

TEST_F(NativeAllocatorTest, CapturesAreAnnouncedByTheirFilter) {
  void* stream = use_new_stream();
  const PoolIdPair pool = new_pool();
  bool is_capturing = false;
  torch().beginAllocateToPool(
      0, pool, [&](GpuStreamHandle asked) { return is_capturing && asked == stream; });
  is_capturing = true;
  const c10::DataPtr inside = torch().allocate(kMiB);
  { const c10::DataPtr cached = torch().allocate(64 * kMiB); }
  state().streams[0] = nullptr;
  { const c10::DataPtr outside = torch().allocate(16 * kMiB); }
  const int64_t before = reserved();
  torch().emptyCache(kNoPool);  // keeps the default pool's memory during a capture
  EXPECT_EQ(reserved(), before);
  end(pool);
  torch().emptyCache(kNoPool);
  EXPECT_LT(reserved(), before);
  state().streams[0] = stream;
}

TEST_F(NativeAllocatorTest, CheckpointRestoresPool) {
  const PoolIdPair pool = new_pool();
  begin(pool);
  c10::DataPtr kept = torch().allocate(kMiB);
  const std::shared_ptr<caching::AllocatorState> state = torch().getCheckpointState(0, pool);
  void* const address = kept.get();
  torch().raw_delete(kept.release_context());
  void* const later = torch().raw_alloc(3 * kMiB);
  {
    caching::CheckpointDelta delta = torch().setCheckpointPoolState(0, state);
    EXPECT_THAT(delta.ptrs_freed, ElementsAre(later));
    ASSERT_EQ(delta.dataptrs_allocd.size(), 1U);
    EXPECT_EQ(delta.dataptrs_allocd[0].get(), address);
    EXPECT_EQ(delta.dataptrs_allocd[0].get_deleter(), torch().raw_deleter());
    EXPECT_TRUE(torch().checkPoolLiveAllocations(0, pool, {address}));
  }
  end(pool);
  EXPECT_THAT(error_of([] {
                torch().setCheckpointPoolState(0, std::make_shared<caching::AllocatorState>());
              }),
              HasSubstr("not a checkpoint"));
  EXPECT_THAT(error_of([] { (void)torch().getCheckpointState(0, new_pool()); }),
              HasSubstr("no pool"));
}

// A program may use PyTorch's pools and Ashlar's on one allocator.
TEST_F(NativeAllocatorTest, PoolIdsOfBothInterfacesDiffer) {
  const PoolIdPair pool = new_pool();
  begin(pool);
  ashlar_pool own{};
  ashlar_pool own_capture{};
  ASSERT_EQ(ashlar_pool_create(ashlar_torch_allocator(0), nullptr, &own), ASHLAR_OK);
  ASSERT_EQ(ashlar_capture_pool_create(ashlar_torch_allocator(0), &own_capture), ASHLAR_OK);
  const PoolIdPair next = new_pool();
  torch().createOrIncrefPool(0, next);
  EXPECT_EQ(torch().getPoolUseCount(0, next), 1);
  EXPECT_GT(own.user, uint64_t{1} << 40);
  EXPECT_GT(own_capture.capture, uint64_t{1} << 40);
  for (const ashlar_pool each : {own, own_capture}) {
    EXPECT_EQ(ashlar_pool_release(ashlar_torch_allocator(0), each), ASHLAR_OK);
    EXPECT_EQ(ashlar_pool_trim(ashlar_torch_allocator(0), each), ASHLAR_OK);
    EXPECT_EQ(ashlar_pool_trim(ashlar_torch_allocator(0), each), ASHLAR_OK) << "was issued";
  }
  EXPECT_EQ(ashlar_pool_trim(ashlar_torch_allocator(0), {0, 1'000'000}), ASHLAR_INVALID_ARGUMENT);
  torch().releasePool(0, next);
  end(pool);
}

// NCCL's registration needs the order in which a pool's segments were created, even if their
// addresses are in another order.
TEST_F(NativeAllocatorTest, SegmentsOfAPoolAreOrderedByCreation) {
  const PoolIdPair pool = new_pool();
  torch().createOrIncrefPool(0, pool);
  torch().setNoSplit(0, pool);
  begin(pool);
  std::vector<c10::DataPtr> blocks;
  for (size_t i = 0; i < 6; ++i) blocks.push_back(torch().allocate((24 - 2 * i) * kMiB));
  const caching::SnapshotInfo info = torch().snapshot(pool, false);
  ASSERT_EQ(info.segments.size(), blocks.size());
  std::map<int32_t, size_t> sizes;
  for (const auto& segment : info.segments) {
    sizes[segment.registration_counter] = segment.total_size;
  }
  ASSERT_EQ(sizes.size(), blocks.size()) << "numbers are unique";
  EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end(),
                             [](const auto& a, const auto& b) { return a.second > b.second; }));
  blocks.clear();
  end(pool);
  torch().releasePool(0, pool);
}

// Workers of a DataLoader inherit the tensors of their parent, destroy them, and exit.
TEST_F(NativeAllocatorTest, ForkedChildrenFreeInheritedMemoryWithoutEffect) {
  void* const memory = torch().raw_alloc(4 * kMiB);
  void* const shared = torch().raw_alloc(4 * kMiB);
  EXPECT_THAT(torch().shareIpcHandle(shared).handle, Not(IsEmpty()));
  EXPECT_EXIT(
      {
        is_child = true;
        torch().raw_delete(memory);
        torch().raw_delete(shared);
        const std::string error = error_of([] { (void)torch().raw_alloc(kMiB); });
        std::exit(error.find("fork") == std::string::npos ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(allocated(), static_cast<int64_t>(8 * kMiB));
  torch().raw_delete(memory);
  torch().raw_delete(shared);
}

// Sharing.

TEST_F(NativeAllocatorTest, SharedMemoryIsKeptUntilItIsFreed) {
  void* memory = torch().raw_alloc(4 * kMiB);
  const caching::ShareableHandle handle = torch().shareIpcHandle(memory);
  EXPECT_THAT(handle.handle, Not(IsEmpty()));
  EXPECT_EQ(handle.offset, 0);
  EXPECT_EQ(torch().shareIpcHandle(memory).handle, handle.handle);
  EXPECT_THAT(error_of([&] { (void)torch().getIpcDevPtr(handle.handle); }),
              HasSubstr("shared by this allocator"));
  torch().raw_delete(memory);
  torch().emptyCache(kNoPool);
  EXPECT_EQ(reserved(), 0);
}

TEST_F(NativeAllocatorTest, RefusesUnknownHandles) {
  int local = 0;
  EXPECT_THAT(error_of([&] { (void)torch().shareIpcHandle(&local); }),
              HasSubstr("invalid device pointer"));
  EXPECT_THAT(error_of([] { (void)torch().getIpcDevPtr("nonsense"); }),
              HasSubstr("not the handle of a shared block"));
  EXPECT_THAT(
      error_of([] { (void)torch().getIpcDevPtr(std::string("\1e") + std::string(40, 'x')); }),
      HasSubstr("expandable segment of PyTorch's own allocator"));
}

TEST_F(NativeAllocatorTest, ThreadsAllocateConcurrently) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 500; ++round) {
        const c10::DataPtr first = torch().allocate(1000);
        const c10::DataPtr second = torch().allocate(2 * kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocated(), 0);
}

}  // namespace
}  // namespace ashlar::torch::native
