// SPDX-License-Identifier: Apache-2.0
//
// Tests of the public allocator of pinned host memory: buffers, raw pointers, graphs and errors.
// Caching is tested in tests/unit/host.
#include "ashlar/host.h"

#include <functional>
#include <thread>

#include "unit/host/pinned_fixture.h"

namespace ashlar {
namespace {

class HostAllocatorTest : public PinnedTest {
 protected:
  int64_t active_count(const HostAllocator& host) { return host.stats().active_requests.current; }
  // Returns the number of host allocations of the device that were not freed.
  uint64_t outstanding_count() {
    return call_count(DeviceCall::kAllocateHost) - call_count(DeviceCall::kFreeHost);
  }
};

TEST_F(HostAllocatorTest, FreesBufferAtEndOfScopeAndReusesIt) {
  HostAllocator host(device());
  std::byte* data = nullptr;
  {
    const HostBuffer buffer = host.allocate(100);
    EXPECT_TRUE(buffer);
    EXPECT_EQ(buffer.bytes(), 100U);
    data = buffer.data();
    EXPECT_EQ(active_count(host), 1);
  }
  EXPECT_EQ(active_count(host), 0);
  EXPECT_EQ(host.allocate(100).data(), data);
  EXPECT_EQ(&host.device(), &device());
}

TEST_F(HostAllocatorTest, DeviceCopiesToAndFromBuffer) {
  HostAllocator host(device());
  const HostBuffer sent = host.allocate(3 * sizeof(int));
  const HostBuffer received = host.allocate(3 * sizeof(int));
  const std::vector<int> numbers{1, 20, 300};
  ASSERT_EQ(sent.as<int>().size(), 3U);
  std::copy(numbers.begin(), numbers.end(), sent.as<int>().begin());
  const DeviceAddress at = *device().allocate(sent.bytes());
  const StreamId stream = *device().create_stream();
  ASSERT_TRUE(device().copy_to_device(at, sent.data(), sent.bytes(), stream).ok());
  ASSERT_TRUE(device().copy_to_host(received.data(), at, sent.bytes(), stream).ok());
  ASSERT_TRUE(device().synchronize_stream(stream).ok());
  EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), received.as<int>().begin()));
  const DeviceAddress pinned_at(reinterpret_cast<uint64_t>(sent.data()));
  EXPECT_EQ(device().describe(pinned_at)->kind, MemoryKind::kHost);
}

TEST_F(HostAllocatorTest, BufferMoveTransfersOwnership) {
  HostAllocator host(device());
  HostBuffer first = host.allocate(512);
  const std::byte* data = first.data();
  HostBuffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.bytes(), 512U);
  HostBuffer third = host.allocate(kMiB);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(active_count(host), 1) << "its previous memory is freed";
  HostBuffer& same = third;
  third = std::move(same);
  EXPECT_EQ(third.data(), data);
  third.reset();
  third.reset();
  EXPECT_FALSE(third);
  EXPECT_EQ(third.bytes(), 0U);
  EXPECT_EQ(active_count(host), 0);
}

TEST_F(HostAllocatorTest, ZeroBytesYieldEmptyBuffer) {
  HostAllocator host(device());
  HostBuffer nothing = host.allocate(0);
  EXPECT_FALSE(nothing);
  EXPECT_EQ(nothing.data(), nullptr);
  EXPECT_TRUE(nothing.as<int>().empty());
  EXPECT_THROW(nothing.record_stream(kDefaultStream), InvalidArgument);
  EXPECT_THROW(nothing.record_stream(device(), kDefaultStream), InvalidArgument);
  EXPECT_EQ(host.allocate_raw(0), nullptr);
  EXPECT_NO_THROW(host.free_raw(nullptr));
  EXPECT_EQ(call_count(DeviceCall::kAllocateHost), 0U);
}

TEST_F(HostAllocatorTest, DefersReuseUntilRecordedStreamsOfAllDevicesFinish) {
  HostAllocator host(device());
  const StreamId stream = busy_stream();
  const StreamId other_stream = busy_stream_of(sim::kSecond);
  HostBuffer buffer = host.allocate(kPinnedBytes);
  const std::byte* data = buffer.data();
  buffer.record_stream(stream);
  buffer.record_stream(other_device(), other_stream);
  buffer.reset();
  EXPECT_EQ(host.stats().pending_blocks.current, 1);
  EXPECT_NE(host.allocate(kPinnedBytes).data(), data);
  finish(stream);
  host.trim();
  EXPECT_NE(host.allocate(kPinnedBytes).data(), data);
  finish_on(sim::kSecond, other_stream);
  EXPECT_EQ(host.allocate(kPinnedBytes).data(), data);
}

TEST_F(HostAllocatorTest, RejectsUnknownStream) {
  HostAllocator host(device());
  HostBuffer buffer = host.allocate(kPinnedBytes);
  const std::byte* data = buffer.data();
  EXPECT_THROW(buffer.record_stream(StreamId(12345)), InvalidArgument);
  buffer.reset();
  EXPECT_EQ(host.allocate(kPinnedBytes).data(), data) << "no stream was recorded";
}

TEST_F(HostAllocatorTest, AllocatesAndFreesRawPointers) {
  HostAllocator host(device());
  void* memory = host.allocate_raw(kPinnedBytes);
  EXPECT_TRUE(host.record_stream(memory, *device().create_stream()));
  EXPECT_EQ(active_count(host), 1);
  host.free_raw(memory);
  EXPECT_EQ(active_count(host), 0);
  EXPECT_EQ(host.allocate_raw(kPinnedBytes), memory);
}

TEST_F(HostAllocatorTest, RejectsFreeOfUnknownPointerWithoutSideEffects) {
  HostAllocator host(device());
  HostAllocator other(device());
  auto* memory = static_cast<std::byte*>(host.allocate_raw(kPinnedBytes));
  const HostBuffer buffer = host.allocate(kPinnedBytes);
  void* freed = host.allocate_raw(kMiB);
  host.free_raw(freed);
  HostBuffer successor = host.allocate(kMiB);
  ASSERT_EQ(successor.data(), freed);
  int foreign = 0;
  const auto before = host.stats().flatten();
  EXPECT_THROW(host.free_raw(&foreign), InvalidArgument) << "foreign";
  EXPECT_THROW(host.free_raw(memory + 1), InvalidArgument) << "inside of one";
  EXPECT_THROW(host.free_raw(buffer.data()), InvalidArgument) << "the address belongs to a Buffer";
  EXPECT_THROW(host.free_raw(freed), InvalidArgument) << "freed twice, and reused by a buffer";
  EXPECT_THROW(other.free_raw(memory), InvalidArgument) << "another allocator's";
  EXPECT_EQ(host.stats().flatten(), before);
  successor.reset();
  EXPECT_THROW(host.free_raw(freed), InvalidArgument) << "twice";
  EXPECT_NO_THROW(host.free_raw(memory));
}

TEST_F(HostAllocatorTest, RecordsStreamForInteriorPointers) {
  HostAllocator host(device());
  const StreamId stream = busy_stream();
  HostBuffer buffer = host.allocate(kPinnedBytes);
  const std::byte* data = buffer.data();
  int foreign = 0;
  EXPECT_FALSE(host.record_stream(&foreign, stream));
  EXPECT_FALSE(host.record_stream(nullptr, stream));
  EXPECT_TRUE(host.record_stream(data + kPinnedBytes - 1, stream));
  buffer.reset();
  EXPECT_FALSE(host.record_stream(data, stream)) << "it was freed";
  EXPECT_NE(host.allocate(kPinnedBytes).data(), data);
  finish(stream);
}

// The owner of a graph stores the capture's id and releases the capture together with the graph.
TEST_F(HostAllocatorTest, KeepsMemoryOfGraphUntilCaptureIsReleased) {
  HostAllocator host(device());
  const StreamId stream = *device().create_stream();
  HostBuffer buffer = host.allocate(kPinnedBytes);
  const std::byte* data = buffer.data();
  ASSERT_TRUE(device().begin_capture(stream, CaptureMode::kGlobal).ok());
  const CaptureId capture = device().capture_state(stream)->capture;
  buffer.record_stream(stream);
  buffer.reset();
  const Result<GraphId> graph = device().end_capture(stream);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(host.stats().graph_blocks.current, 1);
  EXPECT_NE(host.allocate(kPinnedBytes).data(), data);

  const DeviceStream launched_on{&device(), busy_stream()};
  ASSERT_TRUE(device().launch_graph(*graph, launched_on.stream).ok());
  ASSERT_TRUE(device().destroy_graph(*graph).ok());
  host.release_capture(capture, std::span(&launched_on, 1));
  EXPECT_EQ(host.stats().graph_blocks.current, 0);
  EXPECT_NE(host.allocate(kPinnedBytes).data(), data) << "a launch is still running";
  finish(launched_on.stream);
  EXPECT_EQ(host.allocate(kPinnedBytes).data(), data);
  EXPECT_NO_THROW(host.release_capture(capture)) << "again";
}

TEST_F(HostAllocatorTest, RejectsLaunchStreamWithoutDevice) {
  HostAllocator host(device());
  const StreamId stream = *device().create_stream();
  HostBuffer buffer = host.allocate(kPinnedBytes);
  ASSERT_TRUE(device().begin_capture(stream, CaptureMode::kGlobal).ok());
  const CaptureId capture = device().capture_state(stream)->capture;
  buffer.record_stream(stream);
  buffer.reset();
  ASSERT_TRUE(device().end_capture(stream).ok());
  const DeviceStream nowhere{nullptr, stream};
  EXPECT_THROW(host.release_capture(capture, std::span(&nowhere, 1)), InvalidArgument);
  EXPECT_EQ(host.stats().graph_blocks.current, 1);
}

TEST_F(HostAllocatorTest, RoutesToPoolAndReleasesIt) {
  HostAllocator host(device());
  const PoolId pool{0, 1};
  const StreamId stream = *device().create_stream();
  const auto is_stream = [stream](StreamId candidate) { return candidate == stream; };
  EXPECT_THROW(host.begin_routing(pool, nullptr), InvalidArgument);
  EXPECT_THROW(host.end_routing(pool), InvalidArgument);
  host.begin_routing(pool, is_stream);
  EXPECT_THROW(host.begin_routing(pool, is_stream), InvalidArgument);
  const std::byte* data = host.allocate(kPinnedBytes, stream).data();
  EXPECT_NE(host.allocate(kPinnedBytes).data(), data);
  void* raw = host.allocate_raw(kPinnedBytes, stream);
  EXPECT_EQ(raw, data);
  host.free_raw(raw);
  host.end_routing(pool);
  EXPECT_EQ(host.pool_use_count(pool), 1);
  host.release_pool(pool);
  EXPECT_THROW(host.release_pool(pool), InvalidArgument);
  host.trim();
  EXPECT_EQ(outstanding_count(), 0U);
  EXPECT_THROW(static_cast<void>(host.pool_use_count(pool)), InvalidArgument);
}

TEST_F(HostAllocatorTest, ThrowsOutOfMemoryWithReport) {
  HostAllocator host(device());
  for (const size_t bytes : {size_t{1} << 60, SIZE_MAX}) {
    EXPECT_THROW(static_cast<void>(host.allocate(bytes)), std::bad_alloc);
    try {
      static_cast<void>(host.allocate_raw(bytes));
      FAIL();
    } catch (const OutOfMemory& error) {
      EXPECT_NE(std::string(error.what()).find("tried to allocate"), std::string::npos);
    }
  }
  EXPECT_EQ(host.stats().ooms, 4);
  EXPECT_EQ(active_count(host), 0);
}

TEST_F(HostAllocatorTest, ThrowsDeviceErrorWithoutRetry) {
  HostAllocator host(device());
  fail_next(DeviceCall::kAllocateHost);
  EXPECT_THROW(static_cast<void>(host.allocate(kPinnedBytes)), DeviceError);
  EXPECT_EQ(host.stats().alloc_retries, 0);
  EXPECT_NO_THROW(static_cast<void>(host.allocate(kPinnedBytes)));
}

TEST_F(HostAllocatorTest, ReportsDestructorErrorInNextCall) {
  HostAllocator host(device());
  const StreamId stream = *device().create_stream();
  for (const bool by_trim : {false, true}) {
    {
      HostBuffer buffer = host.allocate(kPinnedBytes);
      buffer.record_stream(stream);
      // The free records an event. This fault makes that call fail, and also its retry when the
      // free polls pending blocks.
      machine_->inject({.call = DeviceCall::kRecordEvent, .count = 2});
    }
    if (by_trim) {
      EXPECT_THROW(host.trim(), DeviceError);
    } else {
      EXPECT_THROW(static_cast<void>(host.allocate(kPinnedBytes)), DeviceError);
    }
    EXPECT_NO_THROW(host.trim());
    EXPECT_EQ(active_count(host), 0) << "the memory is freed";
  }
}

TEST_F(HostAllocatorTest, RejectsInvalidOptions) {
  const auto refuses = [&](const std::function<void(AllocatorOptions&)>& change) {
    AllocatorOptions options;
    change(options);
    EXPECT_THROW(HostAllocator(device(), options), InvalidArgument);
  };
  refuses([](AllocatorOptions& options) { options.pinned.register_thread_count = 0; });
  refuses([](AllocatorOptions& options) { options.pinned.register_thread_count = 3; });
  refuses([](AllocatorOptions& options) { options.pinned.register_thread_count = 256; });
  refuses([](AllocatorOptions& options) { options.pinned.reserve_segment_bytes = SIZE_MAX; });
  refuses([](AllocatorOptions& options) { options.memory_fraction = -1; });
  EXPECT_EQ(outstanding_count(), 0U);
}

TEST_F(HostAllocatorTest, ConstructorThrowsIfReserveSegmentFails) {
  AllocatorOptions options;
  options.pinned.reserve_segment_bytes = kMiB;
  fail_next(DeviceCall::kAllocateHost, Status::out_of_memory("injected: the host is full"));
  EXPECT_THROW(HostAllocator(device(), options), OutOfMemory);
  fail_next(DeviceCall::kAllocateHost);
  EXPECT_THROW(HostAllocator(device(), options), DeviceError);
  EXPECT_NO_THROW(HostAllocator(device(), options));
  EXPECT_EQ(outstanding_count(), 0U);
}

TEST_F(HostAllocatorTest, TrimFreesCacheAndDestructorFreesAll) {
  {
    HostAllocator host(device());
    static_cast<void>(host.allocate_raw(kPinnedBytes));
    static_cast<void>(host.allocate(kMiB));
    EXPECT_EQ(outstanding_count(), 2U);
    host.trim();
    EXPECT_EQ(outstanding_count(), 1U);
  }
  EXPECT_EQ(outstanding_count(), 0U);
}

TEST_F(HostAllocatorTest, ResetsPeaksAndTotalsSeparately) {
  HostAllocator host(device());
  static_cast<void>(host.allocate(kMiB));
  host.reset_peak_stats();
  EXPECT_EQ(host.stats().active_requests.peak, 0);
  EXPECT_EQ(host.stats().active_requests.increased, 1);
  host.reset_total_stats();
  EXPECT_EQ(host.stats().active_requests.increased, 0);
  EXPECT_EQ(host.stats().host_allocs, 0);
}

TEST_F(HostAllocatorTest, MeasuresTimeWithGivenClock) {
  HostAllocator host(device(), {}, clock_);
  machine_->inject({.call = DeviceCall::kAllocateHost,
                    .action = sim::FaultAction::kDelay,
                    .delay = std::chrono::microseconds(12)});
  static_cast<void>(host.allocate(kMiB));
  EXPECT_EQ(host.stats().host_alloc_time.total_ns, 12'000);
}

TEST_F(HostAllocatorTest, OptionsSetRoundingAndBackgroundPolling) {
  AllocatorOptions options;
  options.pytorch_compatible = true;
  options.pinned.use_background_threads = true;
  HostAllocator host(device(), options, clock_);
  const StreamId stream = busy_stream();
  HostBuffer buffer = host.allocate(5 * kMiB);
  EXPECT_EQ(host.stats().active_bytes.current, static_cast<int64_t>(8 * kMiB));
  buffer.record_stream(stream);
  buffer.reset();
  EXPECT_EQ(active_count(host), 1);
  finish(stream);
  while (active_count(host) != 0) std::this_thread::yield();
}

using HostAllocatorConcurrencyTest = HostAllocatorTest;

TEST_F(HostAllocatorConcurrencyTest, RejectsSecondOfTwoConcurrentFrees) {
  constexpr int kRounds = 200;
  HostAllocator host(device());
  for (int round = 0; round < kRounds; ++round) {
    void* memory = host.allocate_raw(kPinnedBytes);
    std::atomic<int> refused_count{0};
    const auto free_it = [&] {
      try {
        host.free_raw(memory);
      } catch (const InvalidArgument&) {
        ++refused_count;
      }
    };
    std::thread other(free_it);
    free_it();
    other.join();
    ASSERT_EQ(refused_count, 1);
  }
  EXPECT_EQ(active_count(host), 0);
}

}  // namespace
}  // namespace ashlar
