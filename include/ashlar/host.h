// SPDX-License-Identifier: Apache-2.0
//
// A caching allocator of pinned host memory, which a device copies from and to asynchronously.
// Pinning is slow, so freed memory is cached.
//
//   ashlar::HostAllocator host(device);
//   ashlar::HostBuffer staging = host.allocate(1 << 20);
//   …fill staging.data(), queue a copy from it on `stream`, staging.record_stream(stream)…
//   // The destructor frees the buffer. Its memory is reused once the copy is done.
//
// Unlike device memory, pinned memory does not belong to a stream: record every stream that uses a
// buffer before freeing it.
//
// After a fork, an allocator and its buffers belong to the parent process: in the child, functions
// throw InvalidArgument, and destructors do nothing.
//
// Errors: functions throw.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "ashlar/clock.h"
#include "ashlar/device.h"
#include "ashlar/errors.h"
#include "ashlar/export.h"
#include "ashlar/host_stats.h"
#include "ashlar/options.h"
#include "ashlar/pool.h"
#include "ashlar/stream.h"

namespace ashlar {

struct PinnedBlock;
class PinnedAllocator;
class PinnedResource;

// Owns pinned memory and frees it on destruction, without a lookup. Not thread safe. The allocator
// must outlive the buffer.
class ASHLAR_EXPORT HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer() { reset(); }

  std::byte* data() const { return data_; }  // null if empty
  size_t bytes() const { return bytes_; }    // the requested size
  explicit operator bool() const { return data_ != nullptr; }

  // Returns the buffer as an array of T.
  template <typename T>
  std::span<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>, "devices copy bytes, not objects");
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

  // Declares that work queued on the stream uses the buffer. If the stream is capturing, the
  // captured graph uses it: see HostAllocator::release_capture. Throws InvalidArgument if the
  // buffer is empty or the stream does not exist.
  void record_stream(StreamId stream);
  void record_stream(Device& device, StreamId stream);

  // Frees the memory. If the free fails with a device error, the HostAllocator's next allocate or
  // trim throws that error. If several frees failed, only the first error is thrown.
  void reset() noexcept;

 private:
  friend class HostAllocator;
  HostBuffer(PinnedAllocator& allocator, PinnedBlock* block, size_t bytes);

  PinnedAllocator* allocator_ = nullptr;
  PinnedBlock* block_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// An allocator of memory that is pinned for one device. Thread safe.
class ASHLAR_EXPORT HostAllocator {
 public:
  // The device must outlive the allocator. Validates all options, but only `pinned` and
  // `pytorch_compatible` have an effect. Throws InvalidArgument for invalid options, and
  // OutOfMemory or DeviceError if the reserve segment cannot be allocated.
  explicit HostAllocator(Device& device, const AllocatorOptions& options = {});
  // Like the constructor above, but measures time and sleeps with `clock`, which must outlive the
  // allocator.
  HostAllocator(Device& device, const AllocatorOptions& options, Clock& clock);
  // Waits for the recorded streams, then frees all memory, including buffers that still exist.
  // REQUIRES: graphs that use the memory are destroyed, and their launches are done.
  ~HostAllocator();
  HostAllocator(const HostAllocator&) = delete;
  HostAllocator& operator=(const HostAllocator&) = delete;

  Device& device() const;

  // Allocates page-aligned, uninitialized memory. 0 bytes yield an empty buffer. Throws OutOfMemory
  // if the host is out of memory even after trimming the cache. Throws DeviceError if the device
  // fails, or failed during an earlier free. If several earlier frees failed, only the first error
  // is thrown, and only once; a retry may succeed.
  // `stream` only selects the pool (see begin_routing); streams that use the memory must still be
  // recorded.
  HostBuffer allocate(size_t bytes, StreamId stream = kDefaultStream);

  // Like allocate, for code that cannot keep a HostBuffer. 0 bytes yield null.
  void* allocate_raw(size_t bytes, StreamId stream = kDefaultStream);
  // Frees memory from allocate_raw. Ignores null. Throws InvalidArgument, and changes nothing, if
  // the pointer is not allocated.
  void free_raw(void* memory);

  // Declares that work queued on the stream uses the allocation that contains `memory`, which may
  // point anywhere inside it. Returns false if no allocation contains it; any pointer is allowed.
  bool record_stream(const void* memory, StreamId stream);
  bool record_stream(const void* memory, Device& device, StreamId stream);

  // Releases the memory that a captured graph uses. Memory recorded on a capturing stream belongs
  // to the graph: it is not reused, even if freed, before this call. Call this function when the
  // graph will not be launched again. `capture` is CaptureState::capture; `launched_on` lists the
  // streams in which launches may still be running. Unknown captures are ignored. Throws
  // InvalidArgument, and changes nothing, if an entry of `launched_on` has a null device.
  void release_capture(CaptureId capture, std::span<const DeviceStream> launched_on = {});

  // Pools. Memory of a pool is reused only by that pool. The functions below throw InvalidArgument
  // if the pool does not exist or is not in the required state.

  // Routes allocations that the filter accepts to the pool, until end_routing. If several filters
  // accept a stream, the routing that began last applies. Creates the pool if it does not exist,
  // and retains it. Any id except the default pool's is valid, for example the id of an Allocator's
  // pool.
  void begin_routing(PoolId pool, RouteFilter filter);
  // Ends the routing. Does not release the pool.
  void end_routing(PoolId pool);
  // Drops a reference. The next trim after the last release frees the pool's memory.
  void release_pool(PoolId pool);
  int pool_use_count(PoolId pool) const;

  // Frees cached memory, except the reserve segment and memory of retained pools. Does not wait for
  // device work unless a stream was destroyed before memory that it used was freed; in that case it
  // waits for the stream's device.
  void trim();

  HostStats stats() const;
  void reset_peak_stats();
  void reset_total_stats();

 private:
  friend class PinnedResource;
  struct Impl;
  bool is_inherited() const;  // in a forked child of the process that created the allocator

  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar
