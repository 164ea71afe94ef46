// SPDX-License-Identifier: Apache-2.0
//
// The interface between libashlar_torch.so and the native PyTorch allocator (native/). The native
// allocator is compiled on the user's machine against the installed PyTorch, possibly with another
// compiler and another representation of std::string. Functions therefore pass only numbers, string
// views, and types that contain no strings, and they do not throw.
//
// Thread safe. Callbacks are called with no lock held, except route filters.
//
// Errors: functions return a status; Bridge::last_message describes the thread's last failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ashlar/c/ashlar.h"
#include "ashlar/hooks.h"
#include "ashlar/snapshot.h"
#include "ashlar/stats.h"
#include "ashlar/trace.h"
#include "ashlar/types.h"

namespace ashlar::torch {

// Changes with every change of this file.
inline constexpr uint32_t kBridgeVersion = 4;

using TextField = std::pair<std::string_view, std::string_view>;

struct HistoryRequest {
  size_t max_entries = 0;  // 0 counts as 1
  ashlar_stacks context = ASHLAR_STACKS_NEVER;
  bool clear = false;
  std::span<const TraceAction> skip_actions{};
  // Records the calling thread's stack and returns its number, from 1 to 2^31 - 1, or 0 for none.
  std::function<uint32_t()> recorder{};
};

// Supplies a pool's segments. If `allocate` sets `memory` to null, no memory is left: the allocator
// reclaims memory and tries again. If `allocate` returns an error, the request fails immediately.
struct SourceFunctions {
  std::function<ashlar_status(size_t bytes, void* stream, void** memory)> allocate{};
  std::function<void(void* memory)> free{};
};

// Receives a snapshot. Views and spans are valid during the call only. Stack ids are the recorder's
// numbers; 0: none.
class SnapshotVisitor {
 public:
  virtual ~SnapshotVisitor() = default;
  // Of two segments of a pool, the one that was created later has the greater `creation_number`.
  virtual void visit(const SnapshotSegment& segment, uint64_t creation_number) = 0;
  virtual void visit(const TraceEntry& entry, std::string_view compile_context,
                     std::string_view user_metadata) = 0;
  virtual void visit_annotation(int64_t time_us, std::span<const TextField> fields) = 0;
};

// Describes a live allocation. `bytes` is 0 if no allocation was found.
struct AllocationInfo {
  size_t bytes = 0;
  size_t requested_bytes = 0;
};

// The allocator of one device. Lives as long as the process.
class DeviceBridge {
 public:
  // Memory. `stream` is the driver's handle.

  virtual ashlar_status allocate(size_t bytes, void* stream, void** memory) noexcept = 0;
  // Describes the allocation that starts at `memory`.
  virtual AllocationInfo find(const void* memory) const noexcept = 0;
  // Returns the number of the stack that was recorded for the allocation at `memory`; 0 if no stack
  // was recorded. REQUIRES: the caller owns the memory.
  virtual uint32_t stack_of(const void* memory) const noexcept = 0;
  // Declares that work queued on a stream of the device `stream_device` uses the memory.
  virtual ashlar_status record_stream(void* memory, int stream_device, void* stream) noexcept = 0;
  virtual ashlar_status base_allocation(const void* memory, void** base,
                                        size_t* bytes) noexcept = 0;

  // Limits and the cache.

  virtual ashlar_status trim() noexcept = 0;
  // Does nothing if the pool is retained or does not exist.
  virtual ashlar_status trim_pool(PoolId pool) noexcept = 0;
  virtual ashlar_status set_memory_fraction(double fraction) noexcept = 0;
  virtual double memory_fraction() const noexcept = 0;
  // Returns the device's memory, of which memory_fraction is a part.
  virtual size_t capacity_bytes() const noexcept = 0;
  virtual void set_caching(bool caching) noexcept = 0;
  virtual size_t largest_cached_bytes() const noexcept = 0;

  // Statistics.

  virtual ashlar_status stats(AllocatorStats& stats) const noexcept = 0;
  virtual void reset_peak_stats() noexcept = 0;
  virtual void reset_total_stats() noexcept = 0;
  virtual ashlar_status expandable_segments(
      std::vector<ExpandableSegmentStats>& segments) const noexcept = 0;

  // Pools.

  // Retains the pool. Creates it with one reference if it does not exist; a null source means the
  // device.
  virtual ashlar_status create_or_retain_pool(PoolId pool,
                                              const SourceFunctions* source) noexcept = 0;
  virtual ashlar_status release_pool(PoolId pool) noexcept = 0;
  // Sets `count` to 0 if there is no such pool.
  virtual ashlar_status pool_use_count(PoolId pool, int* count) const noexcept = 0;
  virtual ashlar_status set_use_on_oom(PoolId pool, bool use_on_oom) noexcept = 0;
  virtual ashlar_status set_no_split(PoolId pool) noexcept = 0;
  // Routes allocations on streams that `filter` accepts to the pool, which is created if necessary
  // and retained. If `is_capture`, a stream of the device is about to begin a capture.
  virtual ashlar_status begin_routing(PoolId pool, std::function<bool(void*)> filter,
                                      bool is_capture) noexcept = 0;
  // Also ends the capture that begin_routing announced.
  virtual ashlar_status end_routing(PoolId pool) noexcept = 0;
  virtual ashlar_status live_in_pool(PoolId pool, std::vector<void*>& live) const noexcept = 0;
  virtual ashlar_status checkpoint(PoolId pool, std::shared_ptr<const void>& state) noexcept = 0;
  // REQUIRES: `state` came from `checkpoint`. The caller owns the memory in `allocated`.
  virtual ashlar_status restore(const void* state, std::vector<void*>& freed,
                                std::vector<void*>& allocated) noexcept = 0;

  // History.

  virtual ashlar_status start_history(const HistoryRequest& request) noexcept = 0;
  virtual void stop_history() noexcept = 0;
  virtual bool is_recording() const noexcept = 0;
  virtual ashlar_status annotate(std::span<const TextField> fields) noexcept = 0;
  // A null `pool` selects all pools.
  virtual ashlar_status snapshot(const PoolId* pool, bool include_traces,
                                 SnapshotVisitor& visitor) noexcept = 0;
  // Calls `visit` with the number of every recorded stack that is in use. May visit a number more
  // than once, and may visit 0.
  virtual ashlar_status visit_stacks(const std::function<void(uint32_t)>& visit) const noexcept = 0;

  // Hooks. They stay registered.

  virtual ashlar_status add_tracker(TraceTracker tracker) noexcept = 0;
  virtual ashlar_status add_oom_observer(
      std::function<void(const OomNotice&)> observer) noexcept = 0;
  virtual ashlar_status add_free_memory_callback(std::function<bool()> callback) noexcept = 0;

  // Sharing.

  // Shares the memory with other processes until the memory is freed. Calls `receive` with a handle
  // and an offset. The handle is in PyTorch's format for memory from cudaMalloc, otherwise in
  // Ashlar's. The memory starts at the offset from the address that `open` returns for the handle.
  virtual ashlar_status share(
      void* memory, const std::function<void(std::string_view, ptrdiff_t)>& receive) noexcept = 0;
  // Maps memory that another process shares. When the last reference to `base` is released, the
  // memory is unmapped after the work on `stream`.
  virtual ashlar_status open(std::string_view handle, void* stream,
                             std::shared_ptr<void>& base) noexcept = 0;
  // Gives another device access to all memory of this allocator.
  virtual ashlar_status enable_peer_access(int accessor) noexcept = 0;

 protected:
  ~DeviceBridge() = default;  // never destroyed through this interface
};

// The allocators of all devices.
class Bridge {
 public:
  // Returns the device's bridge, and creates the allocator on first use. Null: see last_message.
  virtual DeviceBridge* device(int index) noexcept = 0;
  // Frees memory that any device's allocate returned. Never fails for allocated memory; the next
  // allocation reports device errors. ASHLAR_INVALID_ARGUMENT: `memory` is not allocated.
  virtual ashlar_status free(void* memory) noexcept = 0;
  virtual const char* last_message() const noexcept = 0;

  // The calling thread's context, which all histories record.
  virtual void push_compile_context(std::string_view name) noexcept = 0;
  virtual void pop_compile_context() noexcept = 0;
  virtual void set_user_metadata(std::string_view text) noexcept = 0;
  virtual void user_metadata(const std::function<void(std::string_view)>& receive) noexcept = 0;

 protected:
  ~Bridge() = default;
};

}  // namespace ashlar::torch

extern "C" {

// Returns the bridge. Null if the caller was compiled for another version of this file.
ASHLAR_C_API ashlar::torch::Bridge* ashlar_torch_bridge(uint32_t version) noexcept;

}  // extern "C"
