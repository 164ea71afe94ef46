// SPDX-License-Identifier: Apache-2.0
//
// The contract between Ashlar and an accelerator. A back end (sim, cuda, hip, or yours) implements
// `Device`; everything above speaks to devices through this header alone. `tests/contract/` holds
// the suite that every implementation must pass.
//
// RULES FOR EVERY FUNCTION, unless it says otherwise
//
//  Failure        Each call returns a Status or a Result. A failed call changed nothing.
//    kInvalidArgument         a precondition below does not hold: a size of 0, a misaligned
//    address, a sum
//                   that overflows, a range that is not what it should be, or an id that this
//                   device did not give out or has taken back already.
//    kOutOfMemory   there is no room, and the device is as healthy as before. Never used for
//                   anything else, and nothing else is used for it.
//    kUnsupported   the properties say that the device cannot do this.
//    kDeviceFault   a driver or system call failed for another reason; code() is its number.
//    kDeviceLost    the device failed for good (an illegal access by device work, say): this and
//                   every later call returns it. Queued work is dropped; waits return.
//  Order          Argument mistakes are found before the device is asked for anything.
//  Sizes          are in bytes and never 0. Where a size must be a multiple of a granularity, the
//                 caller rounds: a device rounds nothing up behind the caller's back. Too large is
//                 kOutOfMemory, however large.
//  Threads        Any function may be called from any thread at any time; nobody selects a
//                 "current device". Taking something back (free, release, destroy, unmap) while
//                 another thread is still handing it to a call is the caller's race, as with
//                 free(3).
//  Waiting        Only functions called synchronize_* wait for device work. `free` and `free_host`
//                 may (real drivers do); unmap, release and set_access do not.
//  Streams        Work in one stream runs in order; two streams are ordered only by events. The
//                 default stream is one of them, with no further meaning promised. A stream id is
//                 the driver's own handle, so that a program can pass streams it made itself; a
//                 back end that cannot tell a foreign one says so (`checks_stream_ids`).
//  Addresses      are unique in the process across the devices of a back end. A reservation, and
//                 what is mapped in it, is changed only through the device that made it. The host
//                 must not dereference device addresses.
//  Async errors   Work that fails on the device reports at the next call that waits for it or
//                 queries it, and makes the device lost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ashlar/export.h"
#include "ashlar/status.h"
#include "ashlar/types.h"
#include "ashlar/unique_fd.h"

namespace ashlar {

// What a device is and can do. Constant for the life of the device: capabilities are data.
struct DeviceProperties {
  std::string backend;             // "sim", "cuda", "hip"
  DeviceIndex index;               // position within the back end
  std::string name;                // "NVIDIA H200"
  std::array<uint8_t, 16> uuid{};  // the same in every process that sees this device
  std::string pci_id;              // "0000:1b:00.0"; empty where there is none
  size_t capacity_bytes = 0;

  size_t allocation_alignment_bytes = 0;  // addresses from allocate are multiples of this
  bool has_virtual_memory = false;        // reserve, create, map, set_access, unmap, release
  size_t granularity_bytes = 0;           // extents and reservations are multiples of this
  bool can_alias = false;                 // one extent may be mapped at several addresses at once
  size_t max_mappings = 0;                // mappings alive at once; 0: no limit worth knowing

  bool can_export_fd = false;          // extents can travel as file descriptors
  bool can_export_fabric = false;      // extents can travel as 64-byte handles
  bool can_export_imported = false;    // extents that were imported can travel on
  bool can_share_allocations = false;  // memory from allocate can be opened by other processes
  bool has_stream_pool = false;        // allocate_async and its relatives
  bool has_capture = false;            // begin_capture and its relatives
  bool checks_stream_ids =
      false;                  // a foreign or destroyed stream id is answered with kInvalidArgument
  int greatest_priority = 0;  // stream priorities run from 0 up to this
};

struct MemoryStats {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};

// Who uses the device's memory, as far as the driver tells.
struct ProcessUse {
  int64_t pid = 0;
  size_t used_bytes = 0;
};

enum class MemoryKind { kUnknown, kDevice, kHost };

// Where an address lies. For kUnknown only `kind` has a meaning.
struct AddressDescription {
  MemoryKind kind = MemoryKind::kUnknown;
  DeviceIndex device;  // whose memory it is; for host memory, who pinned it
  AddressRange range;  // the allocation (as the device rounded it), extent, or pinned range
};

enum class Access { kNone, kRead, kReadWrite };

struct ReserveOptions {
  size_t alignment_bytes = 0;  // power of two; 0: the device's granularity
  DeviceAddress hint{};        // a wish; the reservation may lie elsewhere
};

struct CreateOptions {
  bool export_fd = false;      // export_fd will be asked for
  bool export_fabric = false;  // export_fabric will be asked for
};

// Stands for an extent on any machine of the fabric. Opaque, of fixed size, safe to copy and send.
using FabricHandle = std::array<uint8_t, 64>;

// Stands for memory from allocate, on this machine. Opaque, of fixed size, safe to copy and send.
using AllocationHandle = std::array<uint8_t, 64>;

struct StreamOptions {
  int priority = 0;  // higher is more urgent; 0 .. greatest_priority
};

struct EventOptions {
  bool timing = false;  // elapsed_ms will be asked for
};

// The stream-ordered pool, as the driver accounts for it.
struct DriverPoolStats {
  size_t reserved_bytes = 0;
  size_t used_bytes = 0;
  size_t reserved_peak_bytes = 0;
  size_t used_peak_bytes = 0;
};

// What a thread may do while a capture is going on. See begin_capture.
enum class CaptureMode { kGlobal, kThreadLocal, kRelaxed };

enum class CaptureStatus { kNone, kActive, kInvalidated };

// What a stream's capture has come to. For kNone everything else is empty.
struct CaptureState {
  CaptureStatus status = CaptureStatus::kNone;
  CaptureId capture;
  GraphId graph;             // the graph being built; may not be launched yet
  std::vector<NodeId> tail;  // what the stream's next node will depend on
};

class ASHLAR_EXPORT Device {
 public:
  virtual ~Device() = default;

  // --- identity ----------------------------------------------------------------------------

  virtual const DeviceProperties& properties() const = 0;
  virtual Result<MemoryStats> memory_stats() = 0;
  // kUnsupported where the driver does not tell.
  virtual Result<std::vector<ProcessUse>> processes() = 0;

  // The last failure of a call by this thread on this device; ok if there was none since it was
  // last taken. Taking forgets it, unless the device is lost. Never fails itself.
  virtual Status last_error() = 0;
  virtual Status take_last_error() = 0;

  // --- plain memory ------------------------------------------------------------------------

  // Memory that is mapped and accessible at once, to this device and to enabled peers.
  virtual Result<DeviceAddress> allocate(size_t bytes) = 0;
  // REQUIRES: `address` came from allocate and was not freed since.
  virtual Status free(DeviceAddress address) = 0;
  // Any address is a fair question, also one inside an allocation or a host pointer's value.
  virtual Result<AddressDescription> describe(DeviceAddress address) = 0;

  // --- virtual memory: addresses and physical memory, held separately ------------------------

  // A range of addresses with nothing behind it. REQUIRES: multiple of the granularity.
  // kOutOfMemory: no addresses left.
  virtual Result<DeviceAddress> reserve(size_t bytes, const ReserveOptions& options = {}) = 0;
  // REQUIRES: exactly one reservation, nothing mapped in it.
  virtual Status free_addresses(AddressRange range) = 0;

  // Physical memory with no address. REQUIRES: multiple of the granularity.
  virtual Result<ExtentId> create(size_t bytes, const CreateOptions& options = {}) = 0;
  // Gives up the id. The memory returns to the device when its last mapping and the last import of
  // it are gone too. A descriptor keeps the bytes alive, but counts for nothing in memory_stats.
  virtual Status release(ExtentId extent) = 0;

  // Puts a whole extent behind [at, at + its size): parts of extents cannot be mapped. It is not
  // accessible until set_access. REQUIRES: aligned to the granularity, inside one reservation,
  // nothing mapped there yet; mapped nowhere else unless `can_alias`. kOutOfMemory: max_mappings.
  virtual Status map(DeviceAddress at, ExtentId extent) = 0;
  // REQUIRES: the range starts and ends with a mapped extent and has no hole. kUnsupported: the
  // accessor cannot reach this device, or the device knows no kRead.
  virtual Status set_access(AddressRange range, DeviceIndex accessor, Access access) = 0;
  // REQUIRES: as for set_access. Does not wait: the caller knows that no work needs the range.
  virtual Status unmap(AddressRange range) = 0;

  // --- sharing between processes -------------------------------------------------------------

  // A new file descriptor for the extent. REQUIRES: created with `export_fd`, or imported so.
  // kUnsupported: it was imported, and the device has no `can_export_imported`.
  virtual Result<UniqueFd> export_fd(ExtentId extent) = 0;
  // The exporter's memory under an id of this process; works after the exporter released it or
  // died. The descriptor stays the caller's. Any device of the back end may import it. REQUIRES:
  // `bytes` is the extent's size.
  // kInvalidArgument: the descriptor is not an exported extent of that size.
  virtual Result<ExtentId> import_fd(int fd, size_t bytes) = 0;

  // REQUIRES: created with `export_fabric`, or imported so. kUnsupported: as for export_fd.
  virtual Result<FabricHandle> export_fabric(ExtentId extent) = 0;
  // kDeviceFault: the exporter is gone or has released the extent. kInvalidArgument: not a fabric
  // handle.
  virtual Result<ExtentId> import_fabric(const FabricHandle& handle, size_t bytes) = 0;

  // REQUIRES: `address` is the start of an allocation. The exporter keeps it allocated while
  // others have it open.
  virtual Result<AllocationHandle> share_allocation(DeviceAddress address) = 0;
  // For other processes; in the exporter's own it may be kUnsupported. kInvalidArgument: not a
  // handle.
  virtual Result<DeviceAddress> open_allocation(const AllocationHandle& handle) = 0;
  // REQUIRES: `address` came from open_allocation and was not closed since.
  virtual Status close_allocation(DeviceAddress address) = 0;

  // --- peers -----------------------------------------------------------------------------

  // Whether this device could reach the peer's memory. False for itself.
  virtual Result<bool> can_access_peer(DeviceIndex peer) = 0;
  // This device may use what the peer allocates (plain memory; mapped memory goes by set_access).
  // Doing either twice is fine. kUnsupported: can_access_peer is false.
  virtual Status enable_peer_access(DeviceIndex peer) = 0;
  virtual Status disable_peer_access(DeviceIndex peer) = 0;

  // --- pinned host memory ------------------------------------------------------------------

  // Host memory the device can reach by itself. Page aligned. kOutOfMemory: the host has none.
  virtual Result<void*> allocate_host(size_t bytes) = 0;
  // REQUIRES: came from allocate_host and was not freed since.
  virtual Status free_host(void* memory) = 0;
  // Pins memory the caller owns. REQUIRES: not null, no part of it pinned already.
  virtual Status register_host(void* memory, size_t bytes) = 0;
  // REQUIRES: the start of a registered range.
  virtual Status unregister_host(void* memory) = 0;

  // --- streams ---------------------------------------------------------------------------

  virtual Result<StreamId> create_stream(const StreamOptions& options = {}) = 0;
  // Work already queued still runs. Later the id may be another stream's. REQUIRES: not the default
  // stream, not capturing.
  virtual Status destroy_stream(StreamId stream) = 0;
  // True when everything queued so far has finished, the last piece included.
  virtual Result<bool> is_idle(StreamId stream) = 0;
  virtual Status synchronize_stream(StreamId stream) = 0;
  // Waits for every stream of this device, destroyed ones with work left included.
  virtual Status synchronize_device() = 0;

  // --- events ----------------------------------------------------------------------------

  virtual Result<EventId> create_event(const EventOptions& options = {}) = 0;
  // Waits already queued on the event still wait for what it meant.
  virtual Status destroy_event(EventId event) = 0;
  // From now on the event means "all work queued in the stream so far". REQUIRES: both are of this
  // device.
  virtual Status record_event(EventId event, StreamId stream) = 0;
  // Done when never recorded, or when what it was last recorded for has finished.
  virtual Result<bool> is_done(EventId event) = 0;
  virtual Status synchronize_event(EventId event) = 0;
  // Later work of the stream starts after what the event means now; recording it again later
  // changes nothing for this wait. The event may belong to another device of the back end. The
  // host does not wait.
  virtual Status wait_event(StreamId stream, EventId event) = 0;
  // REQUIRES: both made with timing, recorded, and done.
  virtual Result<double> elapsed_ms(EventId begin, EventId end) = 0;

  // --- work ------------------------------------------------------------------------------
  // All of it is queued, and ranges are checked when queued: device ranges must be mapped and
  // accessible to this device. Host memory is read or written when the work runs, and must live
  // until then; if it is not pinned, the call may wait for the stream. A null host pointer and an
  // empty function are kInvalidArgument.

  virtual Status copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                StreamId stream) = 0;
  virtual Status copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) = 0;
  // Both ranges are accessible to this device, and do not overlap.
  virtual Status copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) = 0;
  // From this device to memory that the peer can access, with or without peer access between them.
  virtual Status copy_to_peer(DeviceIndex peer, DeviceAddress to, DeviceAddress from, size_t bytes,
                              StreamId stream) = 0;
  virtual Status fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) = 0;
  // Runs `function` on some host thread when the stream gets there. It must not call the device.
  virtual Status call_host(StreamId stream, std::function<void()> function) = 0;

  // --- the driver's stream-ordered pool -----------------------------------------------------
  // Not in a capturing stream (kUnsupported), and all of these might wait unseen (see below).

  // Usable by work queued in `stream` from here on. kOutOfMemory as for allocate.
  virtual Result<DeviceAddress> allocate_async(size_t bytes, StreamId stream) = 0;
  // Takes effect when the stream gets there. REQUIRES: came from allocate_async, not freed since.
  virtual Status free_async(DeviceAddress address, StreamId stream) = 0;
  virtual Result<DriverPoolStats> driver_pool_stats() = 0;
  virtual Status reset_pool_peaks() = 0;
  // How much the pool keeps, unused, when the host synchronizes. 0 at first.
  virtual Status set_pool_threshold(size_t keep_bytes) = 0;
  // Gives unused memory back until no more than `keep_bytes` is reserved, or nothing is unused.
  virtual Status trim_pool(size_t keep_bytes) = 0;

  // --- capture ---------------------------------------------------------------------------
  // Between begin and end, work queued in the stream is not run but noted as nodes of a graph.
  // Another stream joins the capture by waiting for an event recorded in it, and must be joined
  // back, by an event, before the end. Begin and end belong in one thread.
  //
  // These fail with kInvalidArgument and invalidate the capture: waiting for or querying its
  // streams and events (synchronize_device too, while a stream of the device captures); waiting in
  // it for an event recorded outside; and the calls that might wait unseen (allocate, free,
  // allocate_host, free_host, synchronize_*, is_idle, is_done, and all of the stream-ordered pool,
  // on any device): in mode kGlobal from any thread, in kThreadLocal from the capturing thread, in
  // kRelaxed none. A thread that exchanged its own mode to kRelaxed may always make the latter; one
  // in kThreadLocal is bound by its own captures only. An invalidated capture takes no more work
  // (kInvalidArgument) and is still to be ended.

  // kInvalidArgument: the stream is capturing. kUnsupported: the default stream, where that cannot
  // be.
  virtual Status begin_capture(StreamId stream, CaptureMode mode) = 0;
  // Ends the capture. kInvalidArgument, without a graph: it was invalidated, or a stream that
  // joined was not joined back. kInvalidArgument, and it goes on, invalidated: the stream only
  // joined it; it must be ended where it began. kInvalidArgument, and nothing changed: the stream
  // is not capturing.
  virtual Result<GraphId> end_capture(StreamId stream) = 0;
  virtual Result<CaptureState> capture_state(StreamId stream) = 0;
  // What must finish before the node starts. REQUIRES: a node of a graph that still exists.
  virtual Result<std::vector<NodeId>> node_dependencies(NodeId node) = 0;
  // Sets the calling thread's mode (kGlobal at first) and returns the one it had.
  virtual Result<CaptureMode> exchange_capture_mode(CaptureMode mode) = 0;
  // Queues the graph's work. A graph may be launched any number of times.
  virtual Status launch_graph(GraphId graph, StreamId stream) = 0;
  // Launches already queued still run.
  virtual Status destroy_graph(GraphId graph) = 0;
};

}  // namespace ashlar
