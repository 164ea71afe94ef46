// SPDX-License-Identifier: Apache-2.0
//
// Tests the behaviour of StreamOrderedResource, and that it has the members that CCCL's concepts
// require. The concepts are written out here, so that the tests do not need CCCL.
#include "ashlar/stream_ordered_resource.h"

#include "ashlar/allocator.h"
#include "unit/device/gpu_fixture.h"
#include "unit/engine/sim_fixture.h"

namespace ashlar {
namespace {

struct DeviceAccessible {};
struct HostAccessible {};
struct DriverStream;           // the type that cudaStream_t points to
using Handle = DriverStream*;  // cudaStream_t
class StreamRef {              // cuda::stream_ref
 public:
  explicit StreamRef(Handle handle) : handle_(handle) {}
  Handle get() const { return handle_; }

 private:
  Handle handle_;
};
class StreamView {  // rmm::cuda_stream_view
 public:
  explicit StreamView(Handle handle) : handle_(handle) {}
  Handle value() const { return handle_; }

 private:
  Handle handle_;
};

// The concepts cuda::mr::resource and cuda::mr::async_resource up to CCCL 3.0.
template <typename R, typename Stream>
concept FirstGeneration = std::equality_comparable<R> &&
    requires(R& resource, void* memory, size_t bytes, size_t alignment, Stream stream) {
  { resource.allocate(bytes, alignment) } -> std::same_as<void*>;
  { resource.deallocate(memory, bytes, alignment) } -> std::same_as<void>;
  { resource.allocate_async(bytes, alignment, stream) } -> std::same_as<void*>;
  { resource.deallocate_async(memory, bytes, alignment, stream) } -> std::same_as<void>;
};

// The concepts cuda::mr::synchronous_resource and cuda::mr::resource since CCCL 3.1.
template <typename R, typename Stream>
concept SecondGeneration = std::equality_comparable<R> &&
    requires(R& resource, void* memory, size_t bytes, size_t alignment, Stream stream) {
  { resource.allocate_sync(bytes, alignment) } -> std::same_as<void*>;
  { resource.deallocate_sync(memory, bytes, alignment) } -> std::same_as<void>;
  { resource.allocate(stream, bytes, alignment) } -> std::same_as<void*>;
  { resource.deallocate(stream, memory, bytes, alignment) } -> std::same_as<void>;
};

// The concept cuda::has_property.
template <typename R, typename Property>
concept Has = requires(const R& resource, Property property) {
  get_property(resource, property);
};

using Resource = StreamOrderedResource<DeviceAccessible>;
static_assert(FirstGeneration<Resource, StreamRef> && SecondGeneration<Resource, StreamRef>);
static_assert(FirstGeneration<Resource, StreamView> && SecondGeneration<Resource, StreamView>);
static_assert(FirstGeneration<Resource, Handle> && SecondGeneration<Resource, Handle>);
static_assert(FirstGeneration<Resource, StreamId> && SecondGeneration<Resource, StreamId>);
static_assert(!FirstGeneration<Resource, int> && !SecondGeneration<Resource, void*>);
static_assert(Has<Resource, DeviceAccessible> && !Has<Resource, HostAccessible>);
static_assert(Has<StreamOrderedResource<DeviceAccessible, HostAccessible>, HostAccessible>);
static_assert(std::copyable<Resource>);

class StreamOrderedResourceTest : public SimFixture {
 protected:
  StreamOrderedResourceTest() {
    make_machine();
    allocator_.emplace(device(), AllocatorOptions{});
    resource_.emplace(*allocator_);
  }
  Resource& resource() { return *resource_; }
  static StreamRef ref(StreamId stream) {
    return StreamRef(reinterpret_cast<Handle>(stream.value()));
  }
  int64_t allocated_bytes() { return allocator_->stats().requested_bytes.all.current; }
  int64_t live_count() { return allocator_->stats().allocation.all.current; }
  int64_t active_count() { return allocator_->stats().active.all.current; }

  std::optional<Allocator> allocator_;
  std::optional<Resource> resource_;
};

TEST_F(StreamOrderedResourceTest, AllocatesOnGivenStream) {
  const StreamId stream = new_stream();
  void* first = resource().allocate(ref(stream), 1000, 256);
  void* second = resource().allocate_async(3000, 16, ref(stream));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0U);
  EXPECT_EQ(allocated_bytes(), 4000);
  EXPECT_EQ(allocator_->stats().streams.at(stream).allocation.current, 2);
  resource().deallocate(ref(stream), first, 1000, 256);
  resource().deallocate_async(second, 3000, 16, ref(stream));
  EXPECT_EQ(active_count(), 0) << "used on its own stream only: freed immediately";
}

TEST_F(StreamOrderedResourceTest, DefersReuseIfFreedOnAnotherStream) {
  const StreamId busy = busy_stream();
  for (const bool is_first_generation : {false, true}) {
    void* memory = resource().allocate(kDefaultStream, kMiB);
    if (is_first_generation) {
      resource().deallocate_async(memory, kMiB, ref(busy));
    } else {
      resource().deallocate(ref(busy), memory, kMiB);
    }
    EXPECT_EQ(live_count(), 0);
    EXPECT_EQ(active_count(), 1) << "the other stream may still use it";
    void* next = resource().allocate(kDefaultStream, kMiB);
    EXPECT_NE(next, memory);
    resource().deallocate(kDefaultStream, next, kMiB);
    finish(busy);
    allocator_->trim();
    EXPECT_EQ(active_count(), 0);
    keep_busy(busy);
  }
  finish(busy);
}

TEST_F(StreamOrderedResourceTest, SyncAllocationIsReadyForAnyStream) {
  resource().deallocate(kDefaultStream, resource().allocate(kDefaultStream, kMiB), kMiB);
  work(device(), kDefaultStream);  // this work may still use the memory that is allocated next
  void* first = resource().allocate_sync(kMiB, 64);
  EXPECT_TRUE(*device().is_idle(kDefaultStream));
  work(device(), kDefaultStream);
  void* second = resource().allocate(kMiB, 64);
  EXPECT_TRUE(*device().is_idle(kDefaultStream));
  resource().deallocate_sync(first, kMiB, 64);
  resource().deallocate(second, kMiB, 64);
  EXPECT_EQ(active_count(), 0);
}

TEST_F(StreamOrderedResourceTest, FreesMemoryIfSynchronizationFails) {
  machine_->inject({.call = DeviceCall::kSynchronizeStream});
  EXPECT_THROW(resource().allocate_sync(kMiB, 64), DeviceError);
  EXPECT_EQ(active_count(), 0);
}

TEST_F(StreamOrderedResourceTest, ZeroBytesYieldNullWhichCanBeFreed) {
  EXPECT_EQ(resource().allocate(kDefaultStream, 0), nullptr);
  resource().deallocate(kDefaultStream, nullptr, 0);
  resource().deallocate_sync(nullptr, 0);
}

TEST_F(StreamOrderedResourceTest, ThrowsBadAllocIfOutOfMemory) {
  EXPECT_THROW(resource().allocate(kDefaultStream, 2 * kGiB), std::bad_alloc);
  EXPECT_THROW(resource().allocate_sync(SIZE_MAX), std::bad_alloc);
}

TEST_F(StreamOrderedResourceTest, RejectsUnsupportedAlignment) {
  for (size_t alignment : {size_t{0}, size_t{24}, size_t{512}}) {
    EXPECT_THROW(resource().allocate(kDefaultStream, 100, alignment), InvalidArgument) << alignment;
    EXPECT_THROW(resource().allocate_sync(100, alignment), InvalidArgument) << alignment;
  }
  EXPECT_EQ(live_count(), 0);
}

TEST_F(StreamOrderedResourceTest, ReportsDeallocationErrorInNextCall) {
  void* memory = resource().allocate(kDefaultStream, kMiB);
  const StreamId used = new_stream();
  machine_->inject({.count = sim::FaultRule::kForever});
  resource().deallocate(ref(used), memory, kMiB);
  EXPECT_THROW(resource().allocate(kDefaultStream, kMiB), DeviceError);
  machine_->clear_faults();
  EXPECT_EQ(live_count(), 0);
  allocator_->trim();
  EXPECT_EQ(active_count(), 0);
}

TEST_F(StreamOrderedResourceTest, ReportsFailedFreeOnce) {
  void* memory = resource().allocate(kDefaultStream, kMiB);
  const StreamId busy = busy_stream();
  machine_->inject({.call = DeviceCall::kRecordEvent});
  resource().deallocate(ref(busy), memory, kMiB);
  EXPECT_EQ(live_count(), 0);
  EXPECT_THROW(resource().allocate(kDefaultStream, kMiB), DeviceError);
  void* next = resource().allocate(kDefaultStream, kMiB);
  EXPECT_NE(next, memory) << "the other stream may still use it";
  resource().deallocate(kDefaultStream, next, kMiB);
  finish(busy);
  allocator_->trim();
  EXPECT_EQ(active_count(), 0);
}

TEST_F(StreamOrderedResourceTest, ResourcesOfSameAllocatorCompareEqual) {
  Allocator other(device(), AllocatorOptions{});
  EXPECT_EQ(resource(), Resource(*allocator_));
  EXPECT_EQ(resource(), Resource(resource()));
  EXPECT_NE(resource(), Resource(other));
  EXPECT_EQ(&resource().allocator(), &*allocator_);
}

class StreamOrderedHandlesTest : public CudaTest {};

TEST_F(StreamOrderedHandlesTest, MapsBothDefaultStreamHandles) {
  Allocator allocator(device(), AllocatorOptions{});
  const StreamOrderedMemory memory(allocator);
  EXPECT_EQ(memory.stream_of(0), kDefaultStream);
  EXPECT_EQ(memory.stream_of(1), kDefaultStream);
  EXPECT_EQ(memory.stream_of(0x5555'0000), StreamId(0x5555'0000));
}

TEST_F(StreamOrderedHandlesTest, RejectsPerThreadDefaultStream) {
  Allocator allocator(device(), AllocatorOptions{});
  Resource resource(allocator);
  EXPECT_THROW(resource.allocate(StreamRef(reinterpret_cast<Handle>(2)), 100), InvalidArgument);
  EXPECT_EQ(allocator.stats().allocation.all.current, 0);
}

}  // namespace
}  // namespace ashlar
