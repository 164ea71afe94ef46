// SPDX-License-Identifier: Apache-2.0
//
// Tests the cuda back end next to other libraries in one process, driver failures, drivers with
// missing features, and what graphs own. The file is long because all of this needs one fixture.
#include <unistd.h>

#include <functional>
#include <utility>
#include <vector>

#include "contract/waiting.h"
#include "unit/device/gpu_fixture.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// --- loading the driver

TEST_F(CudaTest, ReportsAMissingDriverByName) {
  const auto opened = try_open_cuda({.library = "libashlar_no_such_driver.so.1"});
  EXPECT_EQ(opened.status().kind(), StatusKind::kUnsupported);
  EXPECT_THAT(opened.status().message(),
              StartsWith("no CUDA driver: libashlar_no_such_driver.so.1"));
}

TEST_F(CudaTest, ReportsTheFirstMissingFunctions) {
  const auto opened = try_open_cuda({.library = "libc.so.6"});
  EXPECT_EQ(opened.status().kind(), StatusKind::kUnsupported);
  EXPECT_THAT(opened.status().message(),
              AllOf(StartsWith("libc.so.6 has no cuGetErrorName, "), HasSubstr(" and others (")));
}

TEST_F(CudaTest, DevicesHaveTheDriversNamesAndIndices) {
  const DeviceProperties& properties = device(1).properties();
  EXPECT_EQ(properties.backend, "cuda");
  EXPECT_EQ(properties.index, DeviceIndex(1));
  EXPECT_EQ(properties.name, "Ashlar stand-in GPU");
  EXPECT_EQ(properties.pci_id, "0000:01:00.0");
  EXPECT_EQ(properties.capacity_bytes, kGiB);
  EXPECT_EQ(properties.granularity_bytes, kGranule);
}

// --- capability probes

TEST_F(CudaTest, FullDriverHasAllCapabilities) {
  const DeviceProperties& properties = device().properties();
  EXPECT_TRUE(properties.has_virtual_memory);
  EXPECT_TRUE(properties.can_alias);
  EXPECT_TRUE(properties.can_export_fd);
  EXPECT_TRUE(properties.can_export_fabric);
  EXPECT_TRUE(properties.can_share_allocations);
  EXPECT_TRUE(properties.has_stream_ordered_pool);
  EXPECT_EQ(device().memory_stats()->free_bytes, kGiB) << "a probe leaked memory";
}

TEST_F(CudaTest, ProbeDetectsUnsupportedFabricHandles) {
  restart({.export_fabric = false});
  EXPECT_FALSE(device().properties().can_export_fabric);
  EXPECT_TRUE(device().properties().can_export_fd);
  EXPECT_EQ(device().create(kGranule, {.can_export_fabric = true}).status().kind(),
            StatusKind::kUnsupported);
}

TEST_F(CudaTest, ProbeDetectsUnsupportedVirtualMemory) {
  restart({.virtual_memory = false});
  EXPECT_FALSE(device().properties().has_virtual_memory);
  EXPECT_EQ(device().properties().granularity_bytes, 0U);
  EXPECT_TRUE(device().allocate(kMiB).ok());
}

TEST_F(CudaTest, ReservesMoreIfTheDriverRefusesTheAlignment) {
  restart({.reserve_alignment = false});
  const size_t alignment = 64 * kGranule;
  const Result<DeviceAddress> at = device().reserve(kGranule, {.alignment_bytes = alignment});
  ASSERT_TRUE(at.ok()) << at.status().to_string();
  EXPECT_EQ(at->value() % alignment, 0U);
  EXPECT_TRUE(device().free_addresses({*at, kGranule}).ok());
}

TEST_F(CudaTest, ProbeDoesNotInvalidateAGlobalCapture) {
  ASSERT_EQ(device(1).properties().index, DeviceIndex(1));
  const Result<StreamId> stream = device(1).create_stream();
  ASSERT_TRUE(device(1).begin_capture(*stream, CaptureMode::kGlobal).ok());
  EXPECT_TRUE(device(0).properties().has_virtual_memory);  // the first call, which runs the probe
  EXPECT_EQ(device(1).capture_state(*stream)->status, CaptureStatus::kActive);
  EXPECT_TRUE(device(1).end_capture(*stream).ok());
}

// --- contexts

TEST_F(CudaTest, RetainsTheContextFromTheFirstCall) {
  open();
  EXPECT_EQ(control().use_count(0), 0) << "opening the set must not retain a context";
  EXPECT_TRUE(device(0).memory_stats().ok());
  EXPECT_TRUE(device(0).allocate(kMiB).ok());
  EXPECT_EQ(control().use_count(0), 1);
  EXPECT_EQ(control().use_count(1), 0);
  devices_.reset();
  EXPECT_EQ(control().use_count(0), 0);
}

TEST_F(CudaTest, CallsRestoreTheThreadsContext) {
  EXPECT_TRUE(device(0).memory_stats().ok());
  EXPECT_TRUE(device(1).memory_stats().ok());
  EXPECT_EQ(current_context(), nullptr);
  cuda::Context theirs = nullptr;
  ASSERT_EQ(driver("cuDevicePrimaryCtxRetain", &theirs, 1), 0);
  ASSERT_EQ(driver("cuCtxPushCurrent_v2", theirs), 0);
  const size_t before = device(1).memory_stats()->free_bytes;
  EXPECT_TRUE(device(0).allocate(kMiB).ok());
  EXPECT_FALSE(device(0).allocate(0).ok());
  EXPECT_EQ(current_context(), theirs);
  EXPECT_EQ(device(1).memory_stats()->free_bytes, before) << "allocated on the wrong device";
  ASSERT_EQ(driver("cuCtxPopCurrent_v2", &theirs), 0);
  EXPECT_EQ(current_context(), nullptr);
}

// --- objects of other libraries in the process

class ForeignObjectsTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    ASSERT_TRUE(device().memory_stats().ok());
    ASSERT_EQ(driver("cuDevicePrimaryCtxRetain", &context_, 0), 0);
    ASSERT_EQ(driver("cuCtxPushCurrent_v2", context_), 0);
  }
  void TearDown() override { EXPECT_EQ(driver("cuCtxPopCurrent_v2", &context_), 0); }

  gpu::abi::Pointer foreign_memory(size_t bytes) {
    gpu::abi::Pointer at = 0;
    EXPECT_EQ(driver("cuMemAlloc_v2", &at, bytes), 0);
    return at;
  }
  gpu::abi::Stream foreign_stream() {
    gpu::abi::Stream stream = nullptr;
    EXPECT_EQ(driver("cuStreamCreateWithPriority", &stream, 1U, 0), 0);
    return stream;
  }
  static StreamId id_of(gpu::abi::Stream stream) {
    return StreamId(reinterpret_cast<uintptr_t>(stream));
  }

  cuda::Context context_ = nullptr;
};

TEST_F(ForeignObjectsTest, AcceptsForeignMemoryButDoesNotFreeIt) {
  const DeviceAddress at(foreign_memory(kGranule));
  const Result<AddressDescription> found = device().describe(at + 100);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->kind, MemoryKind::kDevice);
  EXPECT_EQ(found->range, (AddressRange{at, kGranule}));
  EXPECT_TRUE(device().fill(at, 7, kGranule, kDefaultStream).ok());
  EXPECT_EQ(device().fill(at, 7, kGranule + 1, kDefaultStream).kind(),
            StatusKind::kInvalidArgument);
  uint8_t last = 0;
  EXPECT_TRUE(device().copy_to_host(&last, at + (kGranule - 1), 1, kDefaultStream).ok());
  EXPECT_TRUE(device().synchronize_device().ok());
  EXPECT_EQ(last, 7);
  EXPECT_EQ(device().free(at).kind(), StatusKind::kInvalidArgument);
}

TEST_F(ForeignObjectsTest, AcceptsForeignStreamsButDoesNotDestroyThem) {
  const StreamId stream = id_of(foreign_stream());
  const Result<DeviceAddress> at = device().allocate(kMiB);
  EXPECT_TRUE(device().fill(*at, 3, kMiB, stream).ok());
  EXPECT_TRUE(device().synchronize_stream(stream).ok());
  EXPECT_TRUE(*device().is_idle(stream));
  EXPECT_EQ(device().destroy_stream(stream).kind(), StatusKind::kInvalidArgument);
}

// If the back end returned the stream to the driver, the driver could give the same handle to
// another library, and the back end would reject that library's stream.
TEST_F(ForeignObjectsTest, KeepsDestroyedStreamsForReuse) {
  const StreamId ours = *device().create_stream();
  const StreamId urgent = *device().create_stream({.priority = 1});
  ASSERT_TRUE(device().destroy_stream(ours).ok());
  ASSERT_TRUE(device().destroy_stream(urgent).ok());
  EXPECT_EQ(device().synchronize_stream(ours).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(device().destroy_stream(ours).kind(), StatusKind::kInvalidArgument);
  for (int i = 0; i < 16; ++i) {
    const StreamId theirs = id_of(foreign_stream());
    EXPECT_TRUE(theirs != ours && theirs != urgent);
    EXPECT_TRUE(device().synchronize_stream(theirs).ok());
  }
  EXPECT_EQ(*device().create_stream({.priority = 1}), urgent);
  EXPECT_EQ(*device().create_stream(), ours);
  EXPECT_TRUE(device().synchronize_stream(ours).ok());
}

TEST_F(ForeignObjectsTest, DoesNotReuseABusyDestroyedStream) {
  const StreamId busy = *device().create_stream();
  ASSERT_TRUE(control().pause_stream(DeviceIndex(0), busy).ok());
  ASSERT_TRUE(device().call_host(busy, [] {}).ok());
  ASSERT_TRUE(device().destroy_stream(busy).ok());
  const StreamId captured = *device().create_stream();
  EXPECT_NE(captured, busy);
  ASSERT_TRUE(device().begin_capture(captured, CaptureMode::kGlobal).ok());
  EXPECT_NE(*device().create_stream(), busy);
  EXPECT_EQ(device().capture_state(captured)->status, CaptureStatus::kActive);
  ASSERT_TRUE(device().end_capture(captured).ok());
  ASSERT_TRUE(control().resume_stream(DeviceIndex(0), busy).ok());
  ASSERT_TRUE(device().synchronize_device().ok());
  EXPECT_EQ(*device().create_stream(), busy);
}

TEST_F(ForeignObjectsTest, LaunchesGraphOfForeignCapture) {
  const gpu::abi::Stream theirs = foreign_stream();
  const StreamId stream = id_of(theirs);
  for (const bool queries_state_after_end : {false, true}) {
    ASSERT_EQ(driver("cuStreamBeginCapture_v2", theirs, 2), 0);
    int run_count = 0;
    ASSERT_TRUE(device().call_host(stream, [&] { ++run_count; }).ok());
    const GraphId graph = device().capture_state(stream)->graph;
    EXPECT_EQ(device().launch_graph(graph, kDefaultStream).kind(), StatusKind::kInvalidArgument)
        << "the capture has not ended";
    gpu::abi::Graph ended = nullptr;
    ASSERT_EQ(driver("cuStreamEndCapture", theirs, &ended), 0);
    ASSERT_EQ(GraphId(reinterpret_cast<uintptr_t>(ended)), graph);
    if (queries_state_after_end) {
      EXPECT_TRUE(device().capture_state(stream).ok());
    }
    EXPECT_TRUE(device().launch_graph(graph, stream).ok());
    EXPECT_TRUE(device().synchronize_stream(stream).ok());
    EXPECT_EQ(run_count, 1);
    EXPECT_TRUE(device().destroy_graph(graph).ok());
    EXPECT_EQ(device().destroy_graph(graph).kind(), StatusKind::kInvalidArgument);
  }
}

TEST_F(ForeignObjectsTest, TracksNodesOfForeignCaptures) {
  const gpu::abi::Stream theirs = foreign_stream();
  const StreamId stream = id_of(theirs);
  const Result<DeviceAddress> at = device().allocate(kMiB);
  ASSERT_EQ(driver("cuStreamBeginCapture_v2", theirs, 2), 0);
  ASSERT_TRUE(device().fill(*at, 3, kMiB, stream).ok());
  const NodeId first = device().capture_state(stream)->tail.at(0);
  ASSERT_TRUE(device().fill(*at, 4, kMiB, stream).ok());
  const CaptureState state = *device().capture_state(stream);
  EXPECT_EQ(state.status, CaptureStatus::kActive);
  EXPECT_THAT(*device().node_dependencies(state.tail.at(0)), ElementsAre(first));
  gpu::abi::Graph graph = nullptr;
  ASSERT_EQ(driver("cuStreamEndCapture", theirs, &graph), 0);
  ASSERT_EQ(driver("cuGraphDestroy", graph), 0);
  EXPECT_EQ(device().capture_state(stream)->status, CaptureStatus::kNone);
  EXPECT_EQ(device().node_dependencies(first).status().kind(), StatusKind::kInvalidArgument)
      << "the driver would abort";
}

// --- failures

TEST_F(CudaTest, DriverFaultHasNameCodeAndText) {
  EXPECT_TRUE(device().memory_stats().ok());
  control().inject({.call = DeviceCall::kAllocate});
  const Status fault = device().allocate(kMiB).status();
  EXPECT_EQ(fault.kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(fault.failed_call(), "cuMemAlloc_v2");
  EXPECT_EQ(fault.code(), 999);
  EXPECT_THAT(fault.message(), StartsWith("CUDA_ERROR_UNKNOWN: "));
  EXPECT_TRUE(device().allocate(kMiB).ok());
}

TEST_F(CudaTest, OutOfMemoryNamesTheCall) {
  const Status full =
      device().allocate(kGiB).ok() ? device().allocate(kGranule).status() : Status();
  EXPECT_EQ(full.kind(), StatusKind::kOutOfMemory);
  EXPECT_THAT(full.message(), StartsWith("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"));
}

TEST_F(CudaTest, FailedReleaseCanBeRetried) {
  const Result<DeviceAddress> plain = device().allocate(kGranule);
  const Result<ExtentId> extent = device().create(kGranule);
  const Result<DeviceAddress> at = device().reserve(kGranule);
  const Result<StreamId> stream = device().create_stream();
  const Result<DeviceAddress> pooled = device().allocate_async(kGranule, *stream);
  const Result<void*> host = device().allocate_host(4096);
  const Result<EventId> event = device().create_event();
  ASSERT_TRUE(device().map(*at, *extent).ok());
  const AddressRange range{*at, kGranule};
  const std::vector<std::pair<DeviceCall, std::function<Status()>>> calls = {
      {DeviceCall::kFree, [&] { return device().free(*plain); }},
      {DeviceCall::kUnmap, [&] { return device().unmap(range); }},
      {DeviceCall::kRelease, [&] { return device().release(*extent); }},
      {DeviceCall::kFreeAddresses, [&] { return device().free_addresses(range); }},
      {DeviceCall::kFreeAsync, [&] { return device().free_async(*pooled, *stream); }},
      {DeviceCall::kFreeHost, [&] { return device().free_host(*host); }},
      {DeviceCall::kDestroyEvent, [&] { return device().destroy_event(*event); }},
  };
  for (const auto& [call, take_back] : calls) {
    control().inject({.call = call});
    EXPECT_EQ(take_back().kind(), StatusKind::kDeviceFault) << name(call);
    EXPECT_TRUE(take_back().ok()) << name(call);
    EXPECT_EQ(take_back().kind(), StatusKind::kInvalidArgument) << name(call);
  }
}

TEST_F(CudaTest, GraphIsUsableAfterAFailedDestruction) {
  const StreamId stream = *device().create_stream();
  int run_count = 0;
  ASSERT_TRUE(device().begin_capture(stream, CaptureMode::kGlobal).ok());
  ASSERT_TRUE(device().call_host(stream, [] {}).ok());
  ASSERT_TRUE(device().call_host(stream, [&] { ++run_count; }).ok());
  const NodeId last = device().capture_state(stream)->tail.at(0);
  const GraphId graph = *device().end_capture(stream);
  ASSERT_TRUE(device().launch_graph(graph, stream).ok());
  control().inject({.call = DeviceCall::kDestroyGraph});
  EXPECT_EQ(device().destroy_graph(graph).kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(device().node_dependencies(last)->size(), 1U);
  EXPECT_TRUE(device().launch_graph(graph, stream).ok());
  EXPECT_TRUE(device().synchronize_stream(stream).ok());
  EXPECT_EQ(run_count, 2);
  EXPECT_TRUE(device().destroy_graph(graph).ok());
  EXPECT_EQ(device().destroy_graph(graph).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(device().node_dependencies(last).status().kind(), StatusKind::kInvalidArgument);
}

// The driver does not align small allocations of host memory to pages, so the back end allocates
// again with one more page. This second allocation fails.
TEST_F(CudaTest, FailedHostAllocationLeavesNoEntry) {
  (void)device().properties();
  control().inject({.call = DeviceCall::kAllocateHost, .nth = 2});
  EXPECT_EQ(device().allocate_host(100).status().kind(), StatusKind::kDeviceFault);
  const Result<void*> host = device().allocate_host(100);
  ASSERT_TRUE(host.ok());
  const DeviceAddress at(reinterpret_cast<uint64_t>(*host));
  EXPECT_EQ(device().describe(at)->range, (AddressRange{at, 100}));
  EXPECT_TRUE(device().free_host(*host).ok());
  EXPECT_EQ(device().describe(at)->kind, MemoryKind::kUnknown) << "the driver still has the memory";
}

TEST_F(CudaTest, FailedImportReleasesEverything) {
  const Result<ExtentId> extent = device().create(kGranule, {.can_export_fd = true});
  const Result<UniqueFd> fd = device().export_fd(*extent);
  control().inject({.call = DeviceCall::kImportFd});
  EXPECT_FALSE(device().import_fd(fd->get(), kGranule).ok());
  for (const DeviceCall call : {DeviceCall::kReserve, DeviceCall::kMap}) {
    control().inject({.call = call});
    EXPECT_EQ(device().import_fd(fd->get(), kGranule).status().kind(), StatusKind::kDeviceFault)
        << name(call);
  }
  EXPECT_EQ(device().import_fd(fd->get(), 2 * kGranule).status().kind(),
            StatusKind::kInvalidArgument);
  ASSERT_TRUE(device().release(*extent).ok());
  EXPECT_EQ(device().memory_stats()->free_bytes, kGiB);
}

TEST_F(CudaTest, LostDeviceStaysLostWithItsReason) {
  const Result<DeviceAddress> at = device().allocate(kGranule);
  control().lose(DeviceIndex(0), Status::device_lost("work", 700, "an illegal access"));
  const Status lost = device().synchronize_device();
  EXPECT_EQ(lost.kind(), StatusKind::kDeviceLost);
  EXPECT_EQ(lost.code(), 700);
  EXPECT_EQ(lost.failed_call(), "cuCtxSynchronize");
  EXPECT_EQ(device().free(*at).to_string(), lost.to_string());
  EXPECT_EQ(device().take_last_error().to_string(), lost.to_string());
  EXPECT_EQ(device().last_error().to_string(), lost.to_string());
  EXPECT_TRUE(device(1).allocate(kGranule).ok()) << "the other device must work";
}

TEST_F(CudaTest, FailedInitializationIsReportedByEveryCall) {
  open();
  control().lose(DeviceIndex(0), Status::device_lost("work", 700, "an illegal access"));
  EXPECT_EQ(device().properties().name, "Ashlar stand-in GPU");
  EXPECT_EQ(device().allocate(kMiB).status().kind(), StatusKind::kDeviceLost);
}

// --- host functions in graphs

TEST_F(CudaTest, HostFunctionLivesAsLongAsGraphAndLaunches) {
  auto counted = std::make_shared<int>(0);
  const Result<StreamId> stream = device().create_stream();
  ASSERT_TRUE(device().begin_capture(*stream, CaptureMode::kGlobal).ok());
  ASSERT_TRUE(device().call_host(*stream, [counted] { ++*counted; }).ok());
  const Result<GraphId> graph = device().end_capture(*stream);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(counted.use_count(), 2);
  ASSERT_TRUE(control().pause_stream(DeviceIndex(0), *stream).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(device().launch_graph(*graph, *stream).ok());
  ASSERT_TRUE(device().destroy_graph(*graph).ok());
  EXPECT_EQ(counted.use_count(), 2) << "launches are still queued";
  ASSERT_TRUE(control().resume_stream(DeviceIndex(0), *stream).ok());
  ASSERT_TRUE(device().synchronize_stream(*stream).ok());
  EXPECT_EQ(*counted, 3);
  devices_.reset();
  restart({});
  EXPECT_EQ(counted.use_count(), 1);
}

TEST_F(CudaTest, HostFunctionOfAFailedCaptureIsDestroyed) {
  auto counted = std::make_shared<int>(0);
  const Result<StreamId> stream = device().create_stream();
  ASSERT_TRUE(device().begin_capture(*stream, CaptureMode::kGlobal).ok());
  ASSERT_TRUE(device().call_host(*stream, [counted] { ++*counted; }).ok());
  EXPECT_FALSE(device().is_idle(*stream).ok());
  EXPECT_FALSE(device().end_capture(*stream).ok());
  EXPECT_TRUE(contract::eventually([&] { return counted.use_count() == 1; }));
  EXPECT_EQ(*counted, 0);
}

// --- NVML

TEST_F(CudaTest, MergesDuplicateProcessEntries) {
  ASSERT_TRUE(device().allocate(kGranule).ok());
  const auto listed = device().processes();
  ASSERT_TRUE(listed.ok()) << listed.status().to_string();
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().pid, getpid());
  EXPECT_EQ(listed->front().used_bytes, kGranule);
}

TEST_F(CudaTest, ProcessesAreUnsupportedWithoutNvml) {
  open({.library = ASHLAR_CUDA_STANDIN, .monitor_library = "libashlar_no_such_monitor.so"});
  const auto listed = device().processes();
  EXPECT_EQ(listed.status().kind(), StatusKind::kUnsupported);
  EXPECT_THAT(listed.status().message(),
              StartsWith("NVML is not available: libashlar_no_such_monitor.so"));
}

}  // namespace
}  // namespace ashlar
