// SPDX-License-Identifier: Apache-2.0
//
// The contract between Ashlar and an accelerator. A back end (sim, cuda, hip, or yours) implements
// `Device`; all other code reaches devices only through this interface. Every implementation must
// pass the suite in `tests/contract/`. Applications use ashlar/stream.h, which throws instead of
// returning a Status.
//
// RULES FOR EVERY FUNCTION, unless documented otherwise
//
//  Errors         Each call returns a Status or a Result and must not throw. A failed call changed
//                 nothing.
//    kInvalidArgument  A precondition is violated: a size of 0, a misaligned address, a range that
//                      overflows or is of the wrong kind, or an id that this device did not return
//                      or that was released.
//    kOutOfMemory      Not enough memory or addresses. The device remains usable. No other failure
//                      uses this kind.
//    kUnsupported      The device lacks this capability; see DeviceProperties.
//    kDeviceFault      A driver or system call failed for another reason; see Status::code.
//    kDeviceLost       The device failed permanently, after an illegal access for example. This and
//                      all later calls return kDeviceLost. Queued work is dropped, and waits for
//                      it return.
//    kHostOutOfMemory  Host memory (operator new) is exhausted.
//  Order          Arguments are checked before anything else.
//  Sizes          Sizes are in bytes and must not be 0. Where a size must be a multiple of a
//                 granularity, the caller rounds; the device does not. A size that is too large
//                 is reported as kOutOfMemory.
//  Threads        Any function may be called from any thread. There is no "current device". The
//                 caller must not release an object (free, release, destroy, unmap) while another
//                 thread passes it to a call.
//  Blocking       Only synchronize_* functions wait for device work, except that `free` and
//                 `free_host` may wait, as real drivers do. In particular, unmap, release and
//                 set_access do not wait.
//  Streams        Work in one stream runs in order. Only events order work across streams. The
//                 default stream has no special semantics. A stream id is the driver's handle, so
//                 that programs can pass streams they created with the driver; see
//                 DeviceProperties::checks_stream_ids.
//  Addresses      Addresses are unique in the process across the devices of a back end. Only the
//                 device that made a reservation may change it and the mappings in it. The host
//                 must not dereference device addresses.
//  Async errors   When queued work fails, the device is lost. The next call that waits for or
//                 queries the work reports the error.
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

// Identity and capabilities of a device. Constant for the lifetime of the device.
struct DeviceProperties {
  std::string backend;             // "sim", "cuda", "hip"
  DeviceIndex index;               // position within the back end
  std::string name;                // "NVIDIA H200"
  std::array<uint8_t, 16> uuid{};  // the same in every process
  std::string pci_id;              // "0000:1b:00.0"; empty: no PCI device
  size_t capacity_bytes = 0;

  size_t allocation_alignment_bytes = 0;  // addresses from allocate are multiples of this
  bool has_virtual_memory = false;        // supports reserve, create, map, set_access, ...
  size_t granularity_bytes = 0;           // sizes of extents and reservations are multiples of this
  bool can_alias = false;                 // one extent may be mapped at several addresses
  // How `can_alias` was determined: "works: ...", "refused: ..." with the driver's error,
  // "incoherent: ..." if stores through one mapping were lost, or "not probed: ...".
  std::string alias_probe;
  size_t max_mappings = 0;  // limit on simultaneous mappings; 0: no known limit

  bool can_export_fd = false;            // supports export_fd and import_fd
  bool can_export_fabric = false;        // supports export_fabric and import_fabric
  bool can_export_imported = false;      // imported extents can be exported again
  bool can_share_allocations = false;    // supports share_allocation and open_allocation
  bool has_stream_ordered_pool = false;  // supports allocate_async, free_async, ...
  bool has_capture = false;              // supports begin_capture, end_capture, ...
  bool checks_stream_ids = false;        // unknown stream ids return kInvalidArgument
  // Stream priorities run from 0 up to this value; unlike in CUDA, higher is more urgent.
  int greatest_priority = 0;
};

struct DeviceMemoryStats {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};

// Device memory used by one process.
struct ProcessMemoryUsage {
  int64_t pid = 0;
  size_t used_bytes = 0;
};

enum class MemoryKind { kUnknown, kDevice, kHost };

// The memory at an address. If `kind` is kUnknown, the other fields are meaningless.
struct AddressDescription {
  MemoryKind kind = MemoryKind::kUnknown;
  DeviceIndex device;  // the owner; for host memory, the device that pinned it
  // The allocation (as rounded by the device), extent or pinned range that contains the address.
  AddressRange range;
};

enum class Access { kNone, kRead, kReadWrite };

struct ReserveOptions {
  size_t alignment_bytes = 0;  // power of two; 0: the device's granularity
  DeviceAddress hint{};        // preferred address; may be ignored
};

struct CreateOptions {
  bool can_export_fd = false;      // allows Device::export_fd
  bool can_export_fabric = false;  // allows Device::export_fabric
};

// Identifies an extent to all machines of the fabric. The bytes are opaque and may be copied and
// sent to other processes.
using FabricHandle = std::array<uint8_t, 64>;

// Identifies an allocation of Device::allocate to other processes on this machine. The bytes are
// opaque and may be copied and sent to these processes.
using AllocationHandle = std::array<uint8_t, 64>;

struct StreamOptions {
  int priority = 0;  // 0 to greatest_priority; higher is more urgent
};

struct EventOptions {
  bool timing = false;  // allows Device::elapsed_ms
};

// Statistics of the driver's stream-ordered pool.
struct DriverPoolStats {
  size_t reserved_bytes = 0;
  size_t used_bytes = 0;
  size_t reserved_peak_bytes = 0;
  size_t used_peak_bytes = 0;
};

// Selects the threads whose blocking calls invalidate a capture; see the section "capture" of
// `Device`.
enum class CaptureMode { kGlobal, kThreadLocal, kRelaxed };

enum class CaptureStatus { kNone, kActive, kInvalidated };

// The capture that a stream takes part in. If `status` is kNone, the other fields are empty.
struct CaptureState {
  CaptureStatus status = CaptureStatus::kNone;
  CaptureId capture;
  GraphId graph;             // the graph being captured; cannot be launched yet
  std::vector<NodeId> tail;  // the dependencies of the stream's next node
};

class ASHLAR_EXPORT Device {
 public:
  virtual ~Device() = default;

  // --- identity

  virtual const DeviceProperties& properties() const = 0;
  virtual Result<DeviceMemoryStats> memory_stats() = 0;
  // Returns the processes that use the device. kUnsupported: the driver does not list them.
  virtual Result<std::vector<ProcessMemoryUsage>> processes() = 0;

  // Returns the status of this thread's last failed call on this device; ok if no call failed since
  // take_last_error.
  virtual Status last_error() = 0;
  // Returns last_error and clears it, unless the device is lost.
  virtual Status take_last_error() = 0;

  // --- plain memory

  // Allocates memory that is accessible to this device and to enabled peers.
  virtual Result<DeviceAddress> allocate(size_t bytes) = 0;
  // REQUIRES: `address` came from allocate and has not been freed.
  virtual Status free(DeviceAddress address) = 0;
  // Describes the memory at an address. Any address is valid, including host pointers and addresses
  // inside an allocation.
  virtual Result<AddressDescription> describe(DeviceAddress address) = 0;

  // --- virtual memory: address ranges and physical memory, managed separately

  // Reserves a range of addresses without memory. REQUIRES: `bytes` is a multiple of the
  // granularity. kOutOfMemory: no addresses left.
  virtual Result<DeviceAddress> reserve(size_t bytes, const ReserveOptions& options = {}) = 0;
  // REQUIRES: `range` is exactly one reservation, and nothing is mapped in it.
  virtual Status free_addresses(AddressRange range) = 0;

  // Creates physical memory without an address. REQUIRES: `bytes` is a multiple of the granularity.
  virtual Result<ExtentId> create(size_t bytes, const CreateOptions& options = {}) = 0;
  // Releases the id. The memory is freed once its last mapping and last import are released too. An
  // exported file descriptor keeps the contents alive; memory that only a descriptor keeps is not
  // counted in memory_stats.
  virtual Status release(ExtentId extent) = 0;

  // Maps a whole extent at [at, at + the extent's size). The range is inaccessible until
  // set_access. REQUIRES: `at` is aligned to the granularity; the range lies in one reservation and
  // nothing is mapped there; the extent is not mapped elsewhere, unless `can_alias`. kOutOfMemory:
  // max_mappings reached.
  virtual Status map(DeviceAddress at, ExtentId extent) = 0;
  // Sets the rights of the device `accessor` in a mapped range. kInvalidArgument: the range has
  // gaps, covers only part of an extent, or includes memory that is not a mapped extent of this
  // device. kUnsupported: the accessor cannot access this device's memory, or the device does not
  // support kRead.
  virtual Status set_access(AddressRange range, DeviceIndex accessor, Access access) = 0;
  // Does not wait. REQUIRES: no device work uses the range any more. kInvalidArgument: in the same
  // cases as set_access.
  virtual Status unmap(AddressRange range) = 0;

  // --- sharing between processes

  // Returns a new file descriptor for the extent. REQUIRES: the extent was created with
  // CreateOptions::can_export_fd, or imported from a descriptor. kUnsupported: the extent was
  // imported, and DeviceProperties::can_export_imported is false.
  virtual Result<UniqueFd> export_fd(ExtentId extent) = 0;
  // Imports an exported extent, even if the exporting process has released the extent or exited.
  // The caller still owns the descriptor. Any device of the back end may import the extent.
  // kInvalidArgument: the descriptor does not refer to an exported extent of `bytes` bytes.
  virtual Result<ExtentId> import_fd(int fd, size_t bytes) = 0;

  // Returns a handle to the extent for other machines of the fabric. REQUIRES: the extent was
  // created with CreateOptions::can_export_fabric, or imported from a fabric handle. kUnsupported:
  // in the same case as export_fd.
  virtual Result<FabricHandle> export_fabric(ExtentId extent) = 0;
  // Imports an extent that was exported with export_fabric. kDeviceFault: the exporter has exited
  // or released the extent. kInvalidArgument: `handle` is not a fabric handle.
  virtual Result<ExtentId> import_fabric(const FabricHandle& handle, size_t bytes) = 0;

  // Returns a handle to the allocation for other processes on this machine. REQUIRES: `address` is
  // the start of an allocation, which stays allocated while other processes have it open.
  virtual Result<AllocationHandle> share_allocation(DeviceAddress address) = 0;
  // Opens an allocation of another process. kUnsupported: some drivers cannot open a handle in the
  // process that exported it. kInvalidArgument: `handle` is not an allocation handle.
  virtual Result<DeviceAddress> open_allocation(const AllocationHandle& handle) = 0;
  // REQUIRES: `address` came from open_allocation and has not been closed.
  virtual Status close_allocation(DeviceAddress address) = 0;

  // --- peers

  // Returns whether this device can access the peer's memory; false if `peer` is this device.
  virtual Result<bool> can_access_peer(DeviceIndex peer) = 0;
  // Allows this device to access the peer's plain allocations; mapped memory needs set_access.
  // Idempotent. kUnsupported: can_access_peer is false.
  virtual Status enable_peer_access(DeviceIndex peer) = 0;
  virtual Status disable_peer_access(DeviceIndex peer) = 0;

  // --- pinned host memory

  // Allocates page-aligned pinned memory. kOutOfMemory: the host is out of memory.
  virtual Result<void*> allocate_host(size_t bytes) = 0;
  // REQUIRES: `memory` came from allocate_host and has not been freed.
  virtual Status free_host(void* memory) = 0;
  // Pins memory the caller owns. REQUIRES: `memory` is not null, and no part of the range is
  // pinned.
  virtual Status register_host(void* memory, size_t bytes) = 0;
  // REQUIRES: `memory` is the start of a registered range.
  virtual Status unregister_host(void* memory) = 0;

  // --- streams

  virtual Result<StreamId> create_stream(const StreamOptions& options = {}) = 0;
  // Destroys a stream. Queued work still runs. The id may be reused for a new stream. REQUIRES: the
  // stream is not the default stream and is not capturing.
  virtual Status destroy_stream(StreamId stream) = 0;
  // Returns whether all work queued in the stream so far has finished.
  virtual Result<bool> is_idle(StreamId stream) = 0;
  virtual Status synchronize_stream(StreamId stream) = 0;
  // Waits for all streams of this device, including destroyed ones that still have work.
  virtual Status synchronize_device() = 0;

  // --- events

  virtual Result<EventId> create_event(const EventOptions& options = {}) = 0;
  // Destroys an event. Queued waits for the event remain in effect.
  virtual Status destroy_event(EventId event) = 0;
  // Makes the event represent all work queued in the stream so far. REQUIRES: the event and the
  // stream belong to this device.
  virtual Status record_event(EventId event, StreamId stream) = 0;
  // Returns whether the work that the event represents has finished; true if it was never recorded.
  virtual Result<bool> is_done(EventId event) = 0;
  virtual Status synchronize_event(EventId event) = 0;
  // Makes later work of the stream wait for the work that the event represents now. Recording the
  // event again does not affect this wait. The event may belong to another device of the back end.
  // Does not block the host.
  virtual Status wait_event(StreamId stream, EventId event) = 0;
  // Returns the time between two events. REQUIRES: both events were created with
  // EventOptions::timing, were recorded, and are done.
  virtual Result<double> elapsed_ms(EventId begin, EventId end) = 0;

  // --- work
  // These functions queue work. Ranges are checked when the work is queued: device ranges must be
  // mapped and accessible to this device. Host memory is accessed when the work runs and must stay
  // valid until then; if it is not pinned, the call may wait for the stream. Null host pointers and
  // empty functions are kInvalidArgument.

  virtual Status copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                StreamId stream) = 0;
  virtual Status copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) = 0;
  // REQUIRES: both ranges are accessible to this device and do not overlap.
  virtual Status copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) = 0;
  // Copies from this device to memory that the peer can access. Does not require
  // enable_peer_access.
  virtual Status copy_to_peer(DeviceIndex peer, DeviceAddress to, DeviceAddress from, size_t bytes,
                              StreamId stream) = 0;
  virtual Status fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) = 0;
  // Runs `function` on a host thread, in stream order. The function must not call the device.
  virtual Status call_host(StreamId stream, std::function<void()> function) = 0;

  // --- the driver's stream-ordered pool
  // These functions return kUnsupported in a capturing stream. All of them count as blocking calls;
  // see the section "capture".

  // Allocates memory for work queued in `stream` from now on.
  virtual Result<DeviceAddress> allocate_async(size_t bytes, StreamId stream) = 0;
  // Frees the memory in stream order. REQUIRES: `address` came from allocate_async and has not been
  // freed.
  virtual Status free_async(DeviceAddress address, StreamId stream) = 0;
  virtual Result<DriverPoolStats> driver_pool_stats() = 0;
  virtual Status reset_pool_peaks() = 0;
  // Sets how much unused memory the pool keeps when the host synchronizes. The initial value is 0.
  virtual Status set_pool_threshold(size_t keep_bytes) = 0;
  // Releases unused memory until at most `keep_bytes` are reserved or no unused memory is left.
  virtual Status trim_pool(size_t keep_bytes) = 0;

  // --- capture
  // During a capture, work queued in the stream is recorded as nodes of a graph instead of run.
  // Another stream joins the capture by waiting for an event recorded in the capture, and must be
  // joined back by an event before the end. Begin and end must be called by the same thread.
  //
  // These calls fail with kInvalidArgument and invalidate the capture:
  //  * synchronizing or querying streams and events of the capture, and synchronize_device of its
  //    device;
  //  * waiting in a stream of the capture for an event recorded outside of the capture;
  //  * blocking calls: allocate, free, allocate_host, free_host, synchronize_*, is_idle, is_done
  //    and all functions of the stream-ordered pool, on any device. A kGlobal capture is
  //    invalidated by blocking calls of any thread, a kThreadLocal capture by those of the
  //    capturing thread, and a kRelaxed capture by none. A thread whose own mode
  //    (exchange_capture_mode) is kRelaxed may always make blocking calls; a thread whose mode is
  //    kThreadLocal is restricted only by captures that it began.
  // An invalidated capture accepts no more work (kInvalidArgument) and must still be ended.

  // Begins a capture in the stream. kInvalidArgument: the stream is capturing. kUnsupported: the
  // default stream, on back ends that cannot capture it.
  virtual Status begin_capture(StreamId stream, CaptureMode mode) = 0;
  // Ends the capture and returns its graph. kInvalidArgument in three cases: the capture was
  // invalidated, or a joined stream was not joined back (the capture ends without a graph); the
  // stream joined the capture, which must be ended where it began (the capture continues,
  // invalidated); the stream is not capturing (nothing changes).
  virtual Result<GraphId> end_capture(StreamId stream) = 0;
  virtual Result<CaptureState> capture_state(StreamId stream) = 0;
  // Returns the nodes that `node` directly depends on. REQUIRES: the graph of `node` still exists.
  virtual Result<std::vector<NodeId>> node_dependencies(NodeId node) = 0;
  // Sets the calling thread's mode (initially kGlobal) and returns the previous mode.
  virtual Result<CaptureMode> exchange_capture_mode(CaptureMode mode) = 0;
  // Queues the work of the graph. A graph can be launched repeatedly.
  virtual Status launch_graph(GraphId graph, StreamId stream) = 0;
  // Destroys a graph. Queued launches still run.
  virtual Status destroy_graph(GraphId graph) = 0;
};

}  // namespace ashlar
