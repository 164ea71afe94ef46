// SPDX-License-Identifier: Apache-2.0
//
// Pools of an allocator: isolated sets of memory, for a graph's capture, for memory from another
// source, or for memory that is paused together.
//
//   Pool pool(allocator, {.tag = "weights"});
//   PoolScope scope(allocator, pool.id());           // allocations on this thread use the pool …
//   weights = allocator.allocate(size_t{8} << 30);   // … until the end of the scope
//
// Errors: functions throw; a `SegmentSource` returns Result.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/buffer.h"
#include "ashlar/checkpoint.h"
#include "ashlar/export.h"
#include "ashlar/options.h"
#include "ashlar/status.h"
#include "ashlar/types.h"

namespace ashlar {

class Allocator;

// Supplies the segments of a pool instead of the device: memory registered with a network card,
// symmetric memory, a user's own allocator. Its functions are called with no lock held, from any
// thread, and must not throw.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  // Allocates a segment for work on the stream. After kOutOfMemory, the allocator reclaims memory
  // and tries again.
  virtual Result<DeviceAddress> allocate(size_t bytes, StreamId stream) = 0;
  virtual void free(DeviceAddress address, size_t bytes) = 0;
};

struct PoolOptions {
  // Where the pool's segments come from. Null: from the device. Shared with the pool, which uses
  // the source until the last segment is freed.
  std::shared_ptr<SegmentSource> source{};
  bool use_on_oom = false;  // cached blocks may serve the default pool if all else fails
  bool no_split = false;    // segments are not split into several blocks
  // Addresses are never remapped, so that they can be registered once with a network card or
  // another device. Costs memory if sizes vary.
  bool never_remap = false;
  // Pools with the same tag are paused and resumed together. Empty: the pool cannot be paused.
  // Incompatible with `never_remap` and, if the engine can pause pools, with `source` and
  // `no_split`.
  std::string tag{};
};

// Selects the allocations that go to a pool, by stream. Called with the allocator's lock held: it
// must neither call the allocator nor throw.
using RouteFilter = std::function<bool(StreamId stream)>;

// The effect of restoring a checkpoint. An address may be in both lists.
struct RestoredPool {
  std::vector<DeviceAddress>
      freed{};  // blocks that are not allocated any more: call Buffer::release on their buffers
  std::vector<Buffer> allocated{};  // blocks that were allocated again, each with its recorded size
};

// The pools of one allocator: `allocator.pools()`. Thread safe. Unless documented otherwise,
// functions throw InvalidArgument if the pool does not exist.
class ASHLAR_EXPORT AllocatorPools {
 public:
  AllocatorPools(const AllocatorPools&) = delete;
  AllocatorPools& operator=(const AllocatorPools&) = delete;
  ~AllocatorPools();

  // Creates a user pool, {0, n}, with one reference, held by the caller. See also `Pool`.
  PoolId create(PoolOptions options = {});
  // Creates a pool for the capture of a graph, {n, 0}, with one reference, held by the caller.
  PoolId create_for_capture();
  void retain(PoolId pool);
  // Drops a reference. The next trim after the last release returns the pool's memory to the
  // device.
  void release(PoolId pool);
  int use_count(PoolId pool) const;
  // Changes PoolOptions::use_on_oom.
  void set_use_on_oom(PoolId pool, bool use_on_oom);
  // Sets PoolOptions::no_split. Throws InvalidArgument also if the pool has memory.
  void set_no_split(PoolId pool);
  // Trims one pool. Does nothing while the pool is retained, or if it was destroyed already.
  void trim(PoolId pool);

  // Routes allocations that `filter` accepts to the pool, until end_routing. If several filters
  // accept a stream, the routing that began last applies. Creates the pool if it does not exist,
  // and retains it. See also `PoolScope`.
  void begin_routing(PoolId pool, RouteFilter filter);
  // Ends the routing. Does not release the pool.
  void end_routing(PoolId pool);

  // Tells the allocator that a stream of its device is about to begin a capture. See also
  // `CaptureScope`.
  void notify_capture_begin();
  // Tells the allocator that the capture has ended.
  void notify_capture_end();

  // Returns the addresses of the pool's allocated blocks, sorted.
  std::vector<DeviceAddress> live_addresses(PoolId pool) const;
  // Saves the state of a pool. Throws InvalidArgument if a block is pending free or was allocated
  // while caching was off, or if the pool has been released.
  PoolCheckpoint checkpoint(PoolId pool);
  // Restores the state of a pool: blocks that were allocated at the checkpoint are allocated again
  // at the same addresses, all others are free. Throws InvalidArgument, and changes nothing, if
  // memory of the checkpoint was returned to the device since, if the pool is paused, or if a block
  // of the pool is pending free, is shared with another process, is used by a second stream, or was
  // allocated while caching was off.
  RestoredPool restore(const PoolCheckpoint& checkpoint);

  // Returns the memory of all pools with the tag to the device, while their blocks keep their
  // addresses (docs/how-to/sleep.md). Waits for the work on these blocks or, if a stream of that
  // work was destroyed, for the whole device. While paused, the pools cannot allocate and no work
  // may use the blocks; blocks can be freed. Pausing twice has no further effect. After an error,
  // the pools that have already lost memory count as paused, backed-up contents are kept, and
  // `pause` or `resume` may be called again.
  // Throws InvalidArgument if no pool has the tag, a block is shared with another process, a stream
  // is capturing, or the engine cannot pause the pool; OutOfMemory if the host lacks memory for the
  // backup.
  void pause(std::string_view tag, const PauseOptions& options = {});
  // Obtains memory for the paused pools with the tag, and restores backed-up contents. After an
  // error, the pools stay paused. Throws InvalidArgument if no pool has the tag; OutOfMemory if the
  // device lacks memory.
  void resume(std::string_view tag);

 private:
  friend class Allocator;
  friend struct AllocatorAccess;
  struct LastIds;
  AllocatorPools(Engine& engine, const AllocatorLiveness& liveness);

  Engine& engine_;
  const AllocatorLiveness& liveness_;
  std::unique_ptr<LastIds> last_ids_;
};

// Owns a reference to a pool and releases it on destruction. The allocator must outlive the Pool.
class ASHLAR_EXPORT Pool {
 public:
  explicit Pool(Allocator& allocator, PoolOptions options = {});
  // Creates a pool for the capture of a graph.
  static Pool for_capture(Allocator& allocator);
  Pool(Pool&& other) noexcept;
  Pool& operator=(Pool&& other) noexcept;
  ~Pool() { reset(); }

  PoolId id() const { return id_; }
  explicit operator bool() const { return pools_ != nullptr; }
  void reset() noexcept;

 private:
  Pool(AllocatorPools& pools, PoolId id) : pools_(&pools), id_(id) {}

  AllocatorPools* pools_;
  PoolId id_;
};

// Routes allocations to a pool while the scope exists: those of the thread that created the scope,
// or those on streams that `filter` accepts. The allocator must outlive the scope.
class ASHLAR_EXPORT PoolScope {
 public:
  PoolScope(Allocator& allocator, PoolId pool);
  PoolScope(Allocator& allocator, PoolId pool, RouteFilter filter);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  AllocatorPools& pools_;
  PoolId pool_;
};

// While a CaptureScope exists, the allocator assumes that streams of its device may be capturing.
class ASHLAR_EXPORT CaptureScope {
 public:
  explicit CaptureScope(Allocator& allocator);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  AllocatorPools& pools_;
};

}  // namespace ashlar
