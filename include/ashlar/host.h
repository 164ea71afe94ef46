// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory for a C++ program: what a device copies from and to without stopping, cached
// between uses, since pinning is slow.
//
//   ashlar::HostAllocator host(device);
//   ashlar::HostBuffer staging = host.allocate(1 << 20);
//   …fill staging.data(), queue a copy from it on `stream`, staging.record_stream(stream)…
//   // leaving the scope frees it; it is used again when `stream` has got past the copy
//
// Unlike device memory it belongs to no stream: every stream whose work uses it is to be recorded,
// before it is freed.
//
// Every function may be called from any thread, except that a buffer is one thread's at a time.
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
#include "ashlar/stream_use.h"

namespace ashlar {

struct PinnedBlock;
class PinnedAllocator;

// Pinned memory with one owner. Freed when it goes out of scope, without a look-up.
class ASHLAR_EXPORT HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer() { reset(); }

  std::byte* data() const { return data_; }  // null for a buffer of 0 B
  size_t bytes() const { return bytes_; }    // as asked for
  explicit operator bool() const { return data_ != nullptr; }

  // The buffer as so many whole T; what they contain is arbitrary until it is written.
  template <typename T>
  std::span<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>, "the device copies bytes, not objects");
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

  // Work queued in the stream uses the buffer. If the stream is capturing, so does the graph: see
  // HostAllocator::release_capture. Throws InvalidArgument if empty, or if there is no such stream.
  void record_stream(StreamId stream);
  void record_stream(Device& device, StreamId stream);

  // Frees now. A failure of the device surfaces at the allocator's next allocate or trim.
  void reset() noexcept;

 private:
  friend class HostAllocator;
  HostBuffer(PinnedAllocator& allocator, PinnedBlock* block, size_t bytes);

  PinnedAllocator* allocator_ = nullptr;
  PinnedBlock* block_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

class ASHLAR_EXPORT HostAllocator {
 public:
  // Memory pinned for `device`, which outlives the allocator, as the allocator its buffers. Of the
  // options, `pinned` and `pytorch_compatible` count; all are checked. Takes the reserve segment,
  // if one is asked for. Throws InvalidArgument for options that make no sense, OutOfMemory or
  // DeviceError for a reserve segment that cannot be had.
  explicit HostAllocator(Device& device, const AllocatorOptions& options = {});
  // The same, with time from a clock that outlives the allocator: statistics measure by it, and the
  // background thread sleeps by it.
  HostAllocator(Device& device, const AllocatorOptions& options, Clock& clock);
  // Waits for the streams recorded, then gives all memory back, also what is still in use.
  // REQUIRES: graphs that use its memory are gone, and their launches done.
  ~HostAllocator();
  HostAllocator(const HostAllocator&) = delete;
  HostAllocator& operator=(const HostAllocator&) = delete;

  Device& device() const;

  // Aligned to pages of 4 KiB, contents arbitrary. 0 B give an empty buffer. Throws OutOfMemory
  // when the host has none, even after the cache was given back; or DeviceError, which may also be
  // one that an earlier free met: it is told once, and trying again may well succeed.
  // The stream decides about the pool (see begin_routing), and about nothing else: a stream that
  // uses the memory is still to be recorded.
  HostBuffer allocate(size_t bytes, StreamId stream = kDefaultStream);

  // The same with plain pointers, for code that cannot keep a HostBuffer. 0 B give null, and
  // freeing that does nothing. A pointer that did not come from allocate_raw, or was freed:
  // InvalidArgument, nothing changed.
  void* allocate_raw(size_t bytes, StreamId stream = kDefaultStream);
  void free_raw(void* memory);

  // Work queued in the stream uses memory that may lie anywhere inside a buffer, or inside what
  // allocate_raw gave. False: it lies in neither, so there is nobody to tell; any pointer may be
  // asked about.
  bool record_stream(const void* memory, StreamId stream);
  bool record_stream(const void* memory, Device& device, StreamId stream);

  // For whoever owns a graph. Memory recorded for a stream while it was capturing is part of that
  // capture's graph: freed or not, it is not used again before this call, which says that nothing
  // captured then will be launched again, the graph being destroyed or never made. The capture is
  // what Device::capture_state told before its end. Launches may still be running in the streams
  // named. A capture that used nothing of ours, or was released before, is fine. Throws
  // InvalidArgument for a stream without a device; nothing changed.
  void release_capture(CaptureId capture, std::span<const StreamUse> launched_on = {});

  // A pool keeps its memory apart: what was allocated from it is used again only by it. Between
  // begin and end, what the filter accepts is allocated from the pool; of several, from the one
  // begun last. Begin makes the pool if there is none, under any id but the default's (such as one
  // that an Allocator gave), and holds it. Let go as often as it was held, its memory goes back to
  // the host with the next trim. Throws InvalidArgument for a pool that is not there, or not in the
  // state named.
  void begin_routing(PoolId pool, RouteFilter filter);
  void end_routing(PoolId pool);
  void release_pool(PoolId pool);
  int pool_use_count(PoolId pool) const;

  // Gives cached memory back to the host, except parts of the reserve segment, and what belongs to
  // pools that are held. Waits for no work, unless a stream was destroyed before memory that it
  // used was freed: then for that device.
  void trim();

  HostStats stats() const;
  void reset_peak_stats();
  void reset_total_stats();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ashlar
