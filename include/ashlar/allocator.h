// SPDX-License-Identifier: Apache-2.0
//
// A stream-ordered, caching allocator of device memory.
//
//   ashlar::Allocator allocator(device);
//   ashlar::Buffer weights = allocator.allocate(64 << 20, stream);
//   …queue work on `stream` that uses weights.address()…
//   // The destructor frees the buffer. Work already queued on `stream` may still use it.
//
// Memory belongs to the stream it was allocated on. A freed block is reused immediately by later
// allocations on that stream, because their work runs after the work that used the block. If
// another stream uses the block as well, declare that use with record_stream: the block is then
// not reused before the work that is queued in that stream at the time of the free is done.
//
// Pools, history, sharing, statistics and hooks are parts of an allocator: ashlar/pool.h,
// ashlar/history.h, ashlar/sharing.h, ashlar/stats.h and ashlar/hooks.h.
//
// After a fork, an allocator and everything made from it belong to the parent process: in the
// child, functions throw InvalidArgument, and destructors do nothing.
//
// Errors: functions throw.
#pragma once

#include <memory>
#include <string>

#include "ashlar/buffer.h"
#include "ashlar/device.h"
#include "ashlar/errors.h"
#include "ashlar/export.h"
#include "ashlar/history.h"
#include "ashlar/hooks.h"
#include "ashlar/options.h"
#include "ashlar/pool.h"
#include "ashlar/sharing.h"
#include "ashlar/snapshot.h"
#include "ashlar/stats.h"

namespace ashlar {

// The allocator of one device. Thread safe.
class ASHLAR_EXPORT Allocator {
 public:
  // Uses options_from_environment(). Throws like the other constructor.
  explicit Allocator(Device& device);
  // The device must outlive the allocator. Throws InvalidArgument if options contradict each other
  // or the device does not support them.
  Allocator(Device& device, const AllocatorOptions& options);
  // Returns all memory to the device, including blocks that are still allocated.
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  Device& device() const;

  // Allocates memory for work on `stream`, aligned to 256 bytes; with a plug-in, the alignment is
  // the plug-in's. 0 bytes yield an empty buffer. Throws OutOfMemory or DeviceError.
  Buffer allocate(size_t bytes, StreamId stream = kDefaultStream);

  // Like allocate, for code that cannot keep a Buffer. 0 bytes yield the null address.
  DeviceAddress allocate_raw(size_t bytes, StreamId stream = kDefaultStream);
  // Frees memory from allocate_raw. Ignores the null address. Throws InvalidArgument, and changes
  // nothing, if the address is not allocated. Throws DeviceError if the device fails; the memory
  // then stays pending, and a later allocation or trim retries the free.
  void free_raw(DeviceAddress address);
  // Like Buffer::record_stream, for memory from allocate_raw. Throws InvalidArgument if the address
  // is not allocated.
  void record_stream(DeviceAddress address, StreamId stream);
  // Like Buffer::record_stream, for a stream of another device.
  void record_stream(DeviceAddress address, Device& device, StreamId stream);

  // Returns cached memory to the device, except memory of retained pools. Waits for pending frees.
  // During a capture, does not wait, and also keeps all memory of the default pool.
  void trim();
  // Releases whole extents or segments to the device until at most `reserved_bytes` are reserved or
  // nothing more can be released. Returns the number of bytes released. Starts with the memory that
  // is least likely to be reused. By default (TrimWait::kNever), does not wait, and keeps memory
  // that queued work may still use. Keeps the same pools as `trim`.
  size_t trim_to(size_t reserved_bytes, const TrimOptions& options = {});

  // Limits the allocator to a fraction of the device's capacity; 1 removes the limit. Throws
  // InvalidArgument outside of [0, 1].
  void set_memory_fraction(double fraction);
  double memory_fraction() const;
  // Switches caching on or off. With caching off, every allocation is a separate device allocation
  // that is returned to the device when freed, as tools that check memory accesses require. Memory
  // that is already cached stays cached, and captures still use cached memory.
  void set_caching(bool caching);
  bool is_caching() const;
  // Sets the stream's class, which determines how much address space the stream's expandable
  // segments reserve (AllocatorOptions::expandable_reserve_by_class). An empty name clears the
  // class.
  void set_stream_class(StreamId stream, std::string name);
  std::string stream_class(StreamId stream) const;
  // Sets the reserve of expandable segments of a stream class, as a fraction of the device's
  // capacity. The fraction applies only if the options set a size neither for the class nor for all
  // streams. The paged engine ignores the fraction. Throws InvalidArgument unless the fraction is
  // positive.
  void set_default_class_fraction(const std::string& name, double capacity_fraction);

  AllocatorStats stats() const;
  // Returns the current state and the recorded history. Resolves stack addresses to function names,
  // which may take seconds.
  Snapshot snapshot(const SnapshotOptions& options = {});

  AllocatorPools& pools();
  const AllocatorPools& pools() const;
  AllocatorHistory& history();
  const AllocatorHistory& history() const;
  AllocatorSharing& sharing();
  const AllocatorSharing& sharing() const;
  AllocatorStatistics& statistics();
  const AllocatorStatistics& statistics() const;
  AllocatorHooks& hooks();

 private:
  struct Impl;
  friend struct AllocatorAccess;

  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar
