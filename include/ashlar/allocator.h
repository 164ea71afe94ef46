// SPDX-License-Identifier: Apache-2.0
//
// Device memory for a C++ program: fast, ordered by streams, cached between uses.
//
//   ashlar::Allocator allocator(device);
//   ashlar::Buffer weights = allocator.allocate(64 << 20, stream);
//   …queue work on `stream` that uses weights.address()…
//   // leaving the scope frees it; work already queued on `stream` is safe
//
// Memory belongs to the stream it was allocated on. Freed, it may be handed out again to that
// stream at once, since later work runs after earlier work. If another stream uses it too, say so
// with record_stream: then it is not reused before that stream has got past its work so far.
//
// Every function may be called from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ashlar/checkpoint.h"
#include "ashlar/device.h"
#include "ashlar/errors.h"
#include "ashlar/expandable_use.h"
#include "ashlar/export.h"
#include "ashlar/history.h"
#include "ashlar/oom_notice.h"
#include "ashlar/options.h"
#include "ashlar/pool.h"
#include "ashlar/remap.h"
#include "ashlar/sharing.h"
#include "ashlar/snapshot.h"
#include "ashlar/stats.h"
#include "ashlar/trace.h"
#include "ashlar/trim.h"

namespace ashlar {

struct Block;
class Engine;

// Device memory with one owner. Freed when it goes out of scope, without a look-up.
class ASHLAR_EXPORT Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() {
    if (block_ != nullptr) reset();
  }

  DeviceAddress address() const { return address_; }  // null for a buffer of 0 B
  size_t bytes() const { return bytes_; }             // as asked for
  explicit operator bool() const { return !address_.is_null(); }

  // A stream uses the buffer, on its own device or on another. Throws InvalidArgument if empty.
  void record_stream(StreamId stream);
  void record_stream(Device& device, StreamId stream);

  // Frees now. A failure of the device surfaces at the allocator's next call.
  void reset() noexcept;
  // Lets go without freeing, because Allocator::restore has done so already.
  void forget() noexcept {
    engine_ = nullptr;
    block_ = nullptr;
    address_ = {};
    bytes_ = 0;
  }

 private:
  friend class Allocator;
  Buffer(Engine& engine, Block* block, DeviceAddress address, size_t bytes)
      : engine_(&engine), block_(block), address_(address), bytes_(bytes) {}

  Engine* engine_ = nullptr;
  Block* block_ = nullptr;
  DeviceAddress address_;
  size_t bytes_ = 0;
};

// A copy between two allocators' memory; a struct, since two addresses look alike.
struct CopyRequest {
  DeviceAddress to{};
  DeviceAddress from{};
  size_t bytes = 0;
  StreamId stream{};  // of the device that is copied from
};

// What restoring a pool changed. An address may be in both: whoever had it before has it no more.
struct RestoredPool {
  std::vector<DeviceAddress> freed{};  // were allocated, and are not: their buffers must `forget`
  std::vector<Buffer> allocated{};     // are allocated now, of the sizes asked for at the time
};

struct SnapshotOptions {
  std::optional<PoolId> pool{};  // only this pool's segments; one that does not exist has none
  bool include_traces = true;    // what happened, not only what is
  int64_t since_us = 0;          // of what happened: only from this time on (as trace.h counts)
};

enum class PauseBackup { kNone, kHost };

struct PauseOptions {
  PauseBackup backup = PauseBackup::kNone;  // what is in the blocks: lost, or kept by the host
};

class ASHLAR_EXPORT Allocator {
 public:
  // The device outlives the allocator, the allocator its buffers. Without options, those that the
  // environment asks for. Throws InvalidArgument for options that make no sense.
  explicit Allocator(Device& device);
  Allocator(Device& device, const AllocatorOptions& options);
  // Gives all memory back to the device, also what is still in use.
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  Device& device() const;

  // Throws OutOfMemory, or DeviceError. 0 B give an empty buffer.
  Buffer allocate(size_t bytes, StreamId stream = kDefaultStream);

  // The same with plain addresses, for code that cannot keep a Buffer. 0 B give the null address,
  // and freeing that does nothing. An address that is not an allocation's: InvalidArgument, nothing
  // changed.
  DeviceAddress allocate_raw(size_t bytes, StreamId stream = kDefaultStream);
  void free_raw(DeviceAddress address);
  void record_stream(DeviceAddress address, StreamId stream);
  void record_stream(DeviceAddress address, Device& device, StreamId stream);

  // Gives cached memory back to the device. Waits for pending frees.
  void trim();
  // Gives back whole extents or segments until no more than this is reserved, or nothing more can
  // go; says how many bytes went. Unless asked to, it never waits for the device: memory that
  // queued work may still use stays, and a later call finds it. What nobody will ask for again goes
  // first, then what is cheapest to have again.
  size_t trim_to(size_t reserved_bytes, const TrimOptions& options = {});
  // At most this share of the device's capacity; 1 lifts the limit. Throws InvalidArgument outside
  // [0, 1].
  void set_memory_fraction(double fraction);
  double memory_fraction() const;
  // While caching is off, each allocation is the device's own, and goes back to it when it is free:
  // for tools that check memory accesses. What is cached already stays cached, and captures always
  // get cached memory, which is their graph's.
  void set_caching(bool caching);
  bool is_caching() const;

  // How many addresses the stream's expandable segments reserve goes by its class, if it has one;
  // an empty name clears it. A class's default counts where the options say nothing.
  void set_stream_class(StreamId stream, std::string name);
  std::string stream_class(StreamId stream) const;
  void set_default_class_fraction(const std::string& name, double capacity_fraction);

  AllocatorStats stats() const;
  void reset_peak_stats();
  void reset_total_stats();
  // The largest block that could be handed out without asking the device, on the right stream and
  // from the right pool. 0: nothing is cached.
  size_t largest_cached_bytes() const;
  std::vector<ExpandableUse> expandable_segments() const;

  // --- history: what was done, and from where ---------------------------------------------------
  // Records from here on; again, goes on under other options. Throws InvalidArgument if stacks are
  // wanted but none can be had.
  void start_history(HistoryOptions options = {});
  // Ends recording, and forgets.
  void stop_history();
  bool is_history_on() const;
  // Marks this moment in the history, if it is on; see Region.
  void annotate(std::vector<std::pair<std::string, std::string>> fields);
  // Says something about a live block.
  void annotate(DeviceAddress address, const std::string& text);
  // What is held now, and what history there is. Names of functions are looked up only here.
  Snapshot snapshot(const SnapshotOptions& options = {});

  // --- pools ----------------------------------------------------------------------------------
  // A pool holds its memory apart from the others. Made by a user, {0, n}; for a capture, {n, 0}.
  PoolId make_pool(PoolOptions options = {});
  PoolId make_capture_pool();
  void retain_pool(PoolId pool);
  // Let go by all who held it, a pool's memory goes back to the device with the next trim.
  void release_pool(PoolId pool);
  // Of one pool; leaves it alone while somebody holds it, and has nothing to do once it is gone.
  // Throws InvalidArgument if it was never made.
  void trim(PoolId pool);
  int pool_use_count(PoolId pool) const;
  // Between begin and end, what the filter accepts is allocated from the pool; begin also holds it.
  void begin_routing(PoolId pool, RouteFilter filter);
  void end_routing(PoolId pool);
  // Around the time in which streams of the device are capturing.
  void capture_began();
  void capture_ended();
  // What the pool has handed out, by address.
  std::vector<DeviceAddress> live_in_pool(PoolId pool) const;
  // The state of a pool, and setting it back to that: what was allocated then is allocated again,
  // at the same addresses, and nothing else. For graphs that share a pool. Throws InvalidArgument,
  // with nothing changed: a block still waits for other streams, or a segment is gone since.
  PoolCheckpoint checkpoint(PoolId pool);
  RestoredPool restore(const PoolCheckpoint& checkpoint);

  // --- pausing: see docs/guide/sleep.md ---------------------------------------------------------
  // Gives the memory of all pools with this tag back to the device, while their blocks keep their
  // addresses; waits for work on those blocks only. Until resumed, nothing can be allocated there,
  // and no work may use the blocks; they can be freed. Doing either twice is doing it once. A
  // failure half-way leaves the pools paused, with nothing lost: call either again. Throws
  // InvalidArgument: no pool has the tag, a block is shared with other processes, or the engine or
  // the pool's kind cannot be paused. OutOfMemory: of the host for the backup, or of the device for
  // resuming.
  void pause(std::string_view tag, const PauseOptions& options = {});
  void resume(std::string_view tag);

  // --- other processes: see sharing.h -----------------------------------------------------------
  // The whole block, named by its buffer or by the address that allocate_raw gave. Throws
  // InvalidArgument for memory that cannot be shared: expandable segments need
  // expandable_segments_ipc.
  Share share(const Buffer& buffer);
  Share share(DeviceAddress address);
  // Opens a block that another allocator shared. It is for work on `stream`, as if allocated there.
  // The same handle again gives the same address. Throws FormatError: not a handle, or from a newer
  // version. InvalidArgument: of another device, or of this very allocator. DeviceError: the
  // exporter is gone, or has ended the share.
  SharedBuffer open_shared(std::string_view handle, StreamId stream = kDefaultStream);
  // The allocation of the device that the block is part of. Throws InvalidArgument for blocks of
  // expandable segments, which are part of none.
  AddressRange base_allocation(const Buffer& buffer) const;
  AddressRange base_allocation(DeviceAddress address) const;

  // --- other devices ----------------------------------------------------------------------------
  // From here on, `accessor` may touch what this allocator has, what it will have, and what it
  // opened of other processes. Throws InvalidArgument where the devices cannot.
  void enable_peer_access(Device& accessor);
  // Copies from this allocator's memory to another's, in the best way there is. Queued, like all
  // work.
  void copy_to(const Allocator& destination, const CopyRequest& copy);

  // --- hooks: called with no lock held; they may call the allocator, and must not throw
  // ---------------------------------
  void add_tracker(TraceTracker tracker);
  void add_oom_observer(std::function<void(const OomNotice&)> observer);
  void add_rejection_observer(std::function<void(const OomNotice&)> observer);
  void add_free_memory_callback(std::function<bool()> callback);
  // Hears of every range that is mapped or will be unmapped, what is mapped already first. Throws
  // InvalidArgument if the engine cannot tell.
  void add_remap_observer(RemapObserver observer);

 private:
  struct Parts;
  friend struct AllocatorParts;
  Block* block_of(const Buffer& buffer) const;
  AddressRange base_of(const Block* block) const;

  std::unique_ptr<Parts> parts_;
};

// A stretch of the program with a name, in the history of an allocator that outlives it.
class ASHLAR_EXPORT Region {
 public:
  Region(Allocator& allocator, std::string name);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  Allocator& allocator_;
  std::string name_;
};

}  // namespace ashlar
