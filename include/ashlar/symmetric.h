// SPDX-License-Identifier: Apache-2.0
//
// Symmetric memory: every rank allocates the same buffer, and ranks read and write each other's
// memory, signal, wait and reduce. Ranks are threads or processes, on one machine or on several;
// the memory is the host's or a device's. The file is long because Handle has one function for each
// operation.
//
//   symm::Heap heap;                                                  // on every rank
//   symm::Group group = symm::Group::join(heap, store, {.rank = rank, .world_size = 4});
//   symm::SymmetricBuffer buffer = heap.allocate(4096);
//   symm::Handle handle = group.rendezvous(buffer);
//   handle.all_reduce(buffer.as<float>());                            // sum, in place
//   group.leave();                                                    // on every rank
//
// Collective functions must be called by all ranks of the group in the same order. If a timeout
// expires, they throw TimeoutError with the ranks that were missing. If a rank dies, its group
// fails: blocked and later operations throw PeerError with the same message. A suspended rank
// receives the PeerError when it resumes, after completing at most one barrier that its peers had
// already entered. Invalid arguments throw InvalidArgument before any memory is accessed.
// See docs/how-to/symmetric_groups.md.
//
// Errors: functions throw.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ashlar/export.h"
#include "ashlar/status.h"
#include "ashlar/store.h"
#include "ashlar/symmetric_heap.h"
#include "ashlar/symmetric_types.h"
#include "ashlar/types.h"

namespace ashlar::symm {

using Timeout = std::chrono::milliseconds;
// The timeout of a call that waits without a limit.
inline constexpr Timeout kNoTimeout{0};

class Transport;

struct GroupOptions {
  int rank = 0;
  int world_size = 1;
  std::string name = "world";  // ranks join the group of this name; no slashes
  std::string job = "job";     // separates jobs that share a store; no slashes
  int channel_count = 32;      // number of channels for barriers and signals
  // Whether `join` measures the largest size for which the one-shot all-reduce is faster than the
  // two-shot all-reduce. The measurement is made only for host memory on one machine; in all other
  // cases, `one_shot_bytes` is used. Both options must be the same on all ranks.
  bool measure_thresholds = true;
  size_t one_shot_bytes = size_t{64} * 1024;
  bool may_share_device = false;  // allow several ranks on one device; same on all ranks
  bool use_multicast = true;      // use multicast if the devices of all ranks support it
  // Exchange device memory as fabric handles instead of file descriptors, if the devices of all
  // ranks support fabric handles. Machines of one NVLink domain always exchange fabric handles.
  bool use_fabric = false;
  // The transport to ranks on other machines, such as open_ucx_transport (ashlar/ucx_transport.h).
  // Required on all ranks if they are on several machines, except with fabric handles.
  std::shared_ptr<Transport> transport{};
  Timeout timeout = kNoTimeout;  // limit on the time that `join` takes
};

struct SubGroupOptions {
  std::string name = "sub";
  std::vector<int> ranks{};  // ranks of the parent group, in the order of their new ranks
  bool measure_thresholds = true;
  Timeout timeout = kNoTimeout;
};

// Statistics of one rank's calls on a group.
struct GroupStats {
  struct Operation {
    std::string name{};  // "put", "all_reduce"
    uint64_t count = 0;  // successful calls; with a stream: calls that were queued
    // Size of this rank's data in all calls; 0 for signals, dispatch and combine.
    uint64_t bytes = 0;
  };
  // A phase of `join`, or of the first rendezvous of an allocation.
  struct Phase {
    std::string name{};  // "mapping"
    uint64_t count = 0;
    std::chrono::nanoseconds time{0};  // total time, including waits for other ranks
  };
  std::vector<Operation> operations{};  // only operations that were called
  std::vector<Phase> phases{};          // in order of execution

  ASHLAR_EXPORT std::string to_string() const;  // one line per operation and per phase
};

class Handle;

// A group of ranks. Operations of one group are ordered, whichever thread calls them; groups are
// independent of each other. Handles of the group keep it alive. Thread safe.
class ASHLAR_EXPORT Group {
 public:
  // Creates a group of `world_size` ranks. Collective.
  static Group join(const Heap& heap, std::shared_ptr<Store> store, const GroupOptions& options);
  // Creates a group of all ranks of the job that the environment describes (ashlar/launch.h).
  // Ignores the options `rank`, `world_size` and `job`. Call it once; join further groups with a
  // store of job_from_environment, or with sub_group. Collective.
  static Group join_from_environment(const Heap& heap, GroupOptions options = {});
  // Creates a group of some ranks of this group. The new group inherits the options that
  // SubGroupOptions lacks. Collective among `options.ranks`.
  Group sub_group(const SubGroupOptions& options) const;
  Group(Group&& other) noexcept;
  Group& operator=(Group&& other) noexcept;
  // Without a prior `leave`, the group fails for the other ranks once this object, its handles and
  // the graphs that contain its operations are destroyed.
  ~Group();

  const std::string& name() const;
  int rank() const;
  int world_size() const;
  int channel_count() const;
  PeerAccess peer_access(int rank) const;
  bool all_direct() const;  // whether all ranks are PeerAccess::kDirect
  // Converts a rank of a group made with sub_group to a rank of the group that `join` created.
  int global_rank(int rank) const;
  // Returns ok, or the error that all calls throw because the group has failed.
  Status failure() const;
  // Returns the size of the largest all-reduce that uses the one-shot algorithm.
  size_t one_shot_bytes() const;
  // Returns the measurements behind one_shot_bytes, as a table.
  std::string thresholds() const;
  GroupStats stats() const;

  // Waits until all ranks have called barrier on the channel. Memory written by any rank before the
  // barrier is visible to all ranks after it. After a TimeoutError, another call completes the same
  // barrier. Channels are independent.
  void barrier(int channel = 0, Timeout timeout = kNoTimeout, std::optional<StreamId> stream = {});

  // Waits for the stream. If the group's work in the stream failed, throws the error. After an
  // error, the group queues no work until `finish` or the group's next call has thrown the error.
  void finish(StreamId stream);

  // Returns a handle to all ranks' memory of the allocation that contains `address`. The first call
  // for an allocation is collective; later calls are local. Each buffer of a pool counts as an
  // allocation.
  Handle rendezvous(const void* address, Timeout timeout = kNoTimeout);
  Handle rendezvous(const SymmetricBuffer& buffer, Timeout timeout = kNoTimeout);

  // Leaves the group. Collective. Throws if a rank failed or did not call `leave` before the
  // timeout, or if a remote rank rejected an operation that this rank posted and did not wait for;
  // even then, this rank has left the group. Only if another thread of this rank stays in a
  // rendezvous for seconds after the timeout, this rank has not left, and may call `leave` again.
  void leave(Timeout timeout = kNoTimeout);

 private:
  friend class Handle;
  struct Impl;
  explicit Group(std::shared_ptr<Impl> impl);
  static Group join_as(const Heap& heap, std::shared_ptr<Store> store, const GroupOptions& options,
                       const std::vector<uint64_t>& members);

  std::shared_ptr<Impl> impl_;  // also owned by handles
};

// Options of a collective. All options except `out`, `timeout` and `stream` must be the same on all
// ranks.
struct CollectiveOptions {
  int64_t offset_bytes = 0;  // start of the data, relative to the handle's offset
  // Destination of the result, outside of the handle's memory. If null, the operation works in
  // place; operations that cannot work in place require `out`. all_gather accepts no `out`.
  void* out = nullptr;
  Timeout timeout = kNoTimeout;  // after a TimeoutError, the same call continues the operation
  // A stream of the heap's device. If set, the call queues the operation after all earlier work of
  // the group in any stream, and returns immediately. If empty, the call returns when the operation
  // is done. If the stream is capturing, the operation runs with each launch of the graph, which is
  // ordered with other work of the group only by streams.
  std::optional<StreamId> stream{};
};

// Arguments of all_to_all_v. The rows for each rank are consecutive in the handle's memory, in rank
// order. Each rank chooses its own `splits`. With a stream, out_splits and out_offsets are written
// when the work runs; they must stay valid until `finish` or, in a graph, until the graph has been
// destroyed.
struct RowExchange {
  int64_t row_bytes = 0;              // same on all ranks
  std::span<const int64_t> splits{};  // number of rows for each rank
  int64_t out_bytes = 0;              // capacity of CollectiveOptions::out
  std::span<int64_t> out_splits{};    // number of rows received from each rank
  std::span<int64_t> out_offsets{};   // index of the first row from each rank in `out`
};

// Arguments of dispatch and combine. With W ranks and E experts per rank, each rank sends W * E
// slices of rows, one for each expert of each rank, and receives as many. All sizes are read when
// the operation runs, so device code can compute them. `row_bytes`, `experts_per_rank`, and the
// positions of `splits` and `offsets` must be the same on all ranks.
struct ExpertExchange {
  int64_t row_bytes = 0;         // less than 4 GiB
  int64_t experts_per_rank = 1;  // W * E is at most 65536
  // If this is not 0, the rows for each expert (in combine: from each rank) begin in `out` at a
  // multiple of this number of rows, and take at least this number, even if there are none. Rows
  // that are left out are not written.
  int64_t alignment_rows = 0;
  // The number of rows in each slice, in this rank's memory of the handle. W * E elements.
  std::span<const int64_t> splits{};
  // The index of the first row of each slice, counted from CollectiveOptions::offset_bytes. Slices
  // may have gaps between them, or overlap. W * E elements directly after `splits`; if empty, each
  // slice begins where the previous one ends.
  std::span<const int64_t> offsets{};
  int64_t out_bytes = 0;  // capacity of CollectiveOptions::out
  // The number of rows in each received slice, and the index of its first row in `out`. W * E
  // elements in memory of the heap's device, outside of the handle's memory.
  std::span<int64_t> out_splits{};
  std::span<int64_t> out_offsets{};
};

// A copy of `count` pieces of `bytes` bytes each between memory of the caller and memory of a rank.
// A stride is the distance in bytes between the beginnings of pieces; it is at least `bytes`.
struct StridedCopy {
  int64_t bytes = 0;
  int64_t count = 1;
  int64_t caller_stride = 0;
  int64_t rank_stride = 0;
  int64_t offset_bytes = 0;  // of the first piece in the rank's memory
};

// A range of 32-bit words in one rank's memory, and the value to store in each.
struct WordFill {
  enum class Memory { kBuffer, kSignalPad };
  Memory memory = Memory::kBuffer;
  int64_t offset = 0;  // number of words from the handle's offset or the start of the pad
  int64_t count = 1;   // at least 1
  uint32_t value = 0;
};

// Gives access to all ranks' memory of one allocation, starting at an offset. The handle keeps this
// memory mapped, even after the buffers are freed. Views are valid until the last copy of the
// handle is destroyed. Graphs that contain operations of the handle keep the memory mapped too.
// Thread safe.
class ASHLAR_EXPORT Handle {
 public:
  int rank() const;
  int world_size() const;
  const std::string& group_name() const;
  PeerAccess peer_access(int rank) const;
  bool all_direct() const;
  int global_rank(int rank) const;

  // Returns the address of each rank's buffer, without the handle's offset; null for host memory on
  // another machine.
  const std::vector<std::byte*>& buffer_ptrs() const;
  // Returns the address of each rank's signal pad; null for host memory on another machine.
  const std::vector<std::byte*>& signal_pad_ptrs() const;
  // Returns a copy of the array of buffer_ptrs in the memory of the heap's device, for user
  // kernels; for host memory, the array itself. Created by the first call, and valid as long as the
  // handle. Throws OutOfMemory or DeviceError.
  std::byte* const* buffer_ptrs_on_device() const;
  // Like buffer_ptrs_on_device, for signal_pad_ptrs.
  std::byte* const* signal_pad_ptrs_on_device() const;
  size_t buffer_bytes() const;  // the requested size; for a pool's buffer, its segment's size
  size_t signal_pad_bytes() const;
  size_t offset() const;  // from the start of the buffer to the address of the rendezvous
  // Returns the multicast address of all ranks' memory, at the handle's offset; null if multicast
  // is not available. In kernels that use multicast instructions, a store to this address reaches
  // every rank, and a load combines the values of all ranks.
  std::byte* multicast_ptr() const;
  // Returns why multicast is not available, the same message on all ranks; empty if it is
  // available.
  const std::string& no_multicast_reason() const;
  // Returns why fabric handles are not used, the same message on all ranks; empty if they are used.
  const std::string& no_fabric_reason() const;

  // Returns `count` elements of a rank's memory, starting `offset` elements after the handle's
  // offset.
  template <typename T>
  std::span<T> view(int rank, int64_t count, int64_t offset = 0) const {
    return {static_cast<T*>(checked_view<T>(rank, count, offset)), static_cast<size_t>(count)};
  }
  // Returns the signal pad of a rank, which is reserved for the user.
  template <typename T = uint32_t>
  std::span<T> signal_pad(int rank) const {
    return signal_pad<T>(rank, static_cast<int64_t>(signal_pad_bytes() / sizeof(T)));
  }
  template <typename T = uint32_t>
  std::span<T> signal_pad(int rank, int64_t count, int64_t offset = 0) const {
    return {static_cast<T*>(checked_pad<T>(rank, count, offset)), static_cast<size_t>(count)};
  }

  // Copies `from` to a rank's memory. The call is one-sided and blocking: the bytes have arrived
  // when `put` returns, even on another machine.
  void put(int to, std::span<const std::byte> from, int64_t offset_bytes = 0) const;
  // Copies a rank's memory to `to`. The call is one-sided and blocking.
  void get(int from, std::span<std::byte> to, int64_t offset_bytes = 0) const;

  // Like put and get, but queued in a stream of the heap's device. The caller's memory is device
  // memory and must stay valid until the copy is done. A copy does not overlap its source. Copies
  // of one stream are done in order; they are not ordered with the group's barriers and collectives
  // in other streams.
  void put(int to, std::span<const std::byte> from, int64_t offset_bytes, StreamId stream) const;
  void get(int from, std::span<std::byte> to, int64_t offset_bytes, StreamId stream) const;
  // Copy pieces to or from a rank's memory. The caller's memory is of the same kind as the heap's.
  // Without a stream, the calls are blocking.
  void put_strided(int to, const void* from, const StridedCopy& copy,
                   std::optional<StreamId> stream = {}) const;
  void get_strided(int from, void* to, const StridedCopy& copy,
                   std::optional<StreamId> stream = {}) const;
  // Copies like put_strided, then sends a signal like put_signal: after a wait_signal, the receiver
  // sees the data. The timeout limits the wait for the previous signal to be consumed.
  void put_with_signal(int to, const void* from, const StridedCopy& copy, int channel = 0,
                       Timeout timeout = kNoTimeout, std::optional<StreamId> stream = {}) const;
  // Queues a wait in the stream for all copies of this group that were queued in other streams
  // before. In a capture, order the streams with events instead; the call does nothing.
  void fence(StreamId stream) const;

  // Like put, but non-blocking: `from` may be reused when `post` returns; the bytes have arrived
  // when `quiet` returns. Several posts can be in flight.
  void post(int to, std::span<const std::byte> from, int64_t offset_bytes = 0) const;
  // Starts an atomic operation, which has been applied when `quiet` returns. Throws InvalidArgument
  // for device memory and for swaps, which return a value.
  void post(int target, const AtomicOp& op) const;
  // Applies an atomic operation and returns the previous value. Throws InvalidArgument for device
  // memory.
  uint64_t fetch(int target, const AtomicOp& op) const;
  // Orders earlier posts of this process before its later operations, as seen by all ranks.
  void fence() const;
  // Waits until all earlier posts of this process have arrived.
  void quiet() const;

  // Stores words in a rank's memory. The call is one-sided, and the store is queued if `stream`, a
  // stream of the heap's device, is set. Queued stores run even if the group fails afterwards.
  // A rank that reads one of the words with acquire semantics also sees what the stream, or the
  // caller, wrote before. A rank on another machine sees only what the caller itself wrote to
  // that rank's memory.
  void store_words(int to, const WordFill& fill, std::optional<StreamId> stream = {}) const;
  // Copies device memory to the same offset in every rank's memory, through multicast. Throws
  // InvalidArgument without multicast. `from` may equal the destination but must not partially
  // overlap it.
  void multimem_put(std::span<const std::byte> from, int64_t offset_bytes = 0,
                    std::optional<StreamId> stream = {}) const;

  // Signals, between pairs of ranks. Memory written before a signal is visible to the receiver
  // after it has waited for the signal. With a stream of the heap's device, the operation is queued
  // (CollectiveOptions::stream).

  // Sends a signal to a rank. Each channel holds one signal: the call waits until the previous
  // signal has been consumed.
  void put_signal(int to, int channel = 0, Timeout timeout = kNoTimeout,
                  std::optional<StreamId> stream = {}) const;
  // Waits for a signal from a rank, and consumes it.
  void wait_signal(int from, int channel = 0, Timeout timeout = kNoTimeout,
                   std::optional<StreamId> stream = {}) const;
  // Adds to a counter at a rank. There is one monotonic counter per pair of ranks and channel.
  void add_signal(int to, uint64_t amount = 1, int channel = 0,
                  std::optional<StreamId> stream = {}) const;
  // Waits until the counter that rank `from` increments is at least `value`.
  void wait_for_value(int from, uint64_t value, int channel = 0, Timeout timeout = kNoTimeout,
                      std::optional<StreamId> stream = {}) const;
  // Returns the current value of the counter that rank `from` increments.
  uint64_t counter_value(int from, int channel = 0) const;
  // Like Group::barrier.
  void barrier(int channel = 0, Timeout timeout = kNoTimeout,
               std::optional<StreamId> stream = {}) const;

  // Typed collectives. `elements` is a part of this rank's memory (from SymmetricBuffer::as or
  // view), at the same offset on all ranks; CollectiveOptions::offset_bytes is ignored. Elements
  // are combined in rank order, so that all ranks get bit-identical results.
  template <typename T>
  void all_reduce(std::span<T> elements, ReduceOp op = ReduceOp::kSum,
                  const CollectiveOptions& options = {}) const {
    all_reduce(std::ssize(elements), {element_type<T>(), op}, options_for(elements, options));
  }
  // The root gets the result in `out`; `out` of other ranks is ignored.
  template <typename T>
  void reduce(std::span<T> elements, std::span<std::remove_const_t<T>> out, int root,
              ReduceOp op = ReduceOp::kSum, const CollectiveOptions& options = {}) const {
    if (rank() == root) check_size("out", std::ssize(out), std::ssize(elements));
    reduce(std::ssize(elements), root, {element_type<T>(), op},
           options_for(elements, options, out.data()));
  }
  // `elements` has one part of out.size() elements for each rank, in rank order. `out` gets this
  // rank's part of the result.
  template <typename T>
  void reduce_scatter(std::span<T> elements, std::span<std::remove_const_t<T>> out,
                      ReduceOp op = ReduceOp::kSum, const CollectiveOptions& options = {}) const {
    check_size("elements", std::ssize(elements), std::ssize(out) * world_size());
    reduce_scatter(std::ssize(out), {element_type<T>(), op},
                   options_for(elements, options, out.data()));
  }
  // Gathers `in` of all ranks, in rank order, into `elements`, which has one part of in.size()
  // elements for each rank.
  template <typename T>
  void all_gather(std::span<const std::type_identity_t<T>> in, std::span<T> elements,
                  const CollectiveOptions& options = {}) const {
    check_size("elements", std::ssize(elements), std::ssize(in) * world_size());
    all_gather(in.data(), std::ssize(in) * int64_t{sizeof(T)}, options_for(elements, options));
  }
  // Copies the root's `elements` to all ranks.
  template <typename T>
  void broadcast(std::span<T> elements, int root, const CollectiveOptions& options = {}) const {
    broadcast(std::ssize(elements) * int64_t{sizeof(T)}, root, options_for(elements, options));
  }

  // Untyped collectives, on this rank's memory starting at CollectiveOptions::offset_bytes. They
  // also accept half-precision elements.

  // Combines the values of all ranks; every rank gets the result. all_reduce uses the one-shot
  // algorithm up to Group::one_shot_bytes, and the two-shot algorithm for larger data.
  void all_reduce(int64_t count, Reduction reduction = {},
                  const CollectiveOptions& options = {}) const;
  void one_shot_all_reduce(int64_t count, Reduction reduction = {},
                           const CollectiveOptions& options = {}) const;
  void two_shot_all_reduce(int64_t count, Reduction reduction = {},
                           const CollectiveOptions& options = {}) const;
  // Combines the values of all ranks. The root gets the result in `out`, which it must set; `out`
  // of other ranks is ignored.
  void reduce(int64_t count, int root, Reduction reduction, const CollectiveOptions& options) const;
  // Combines the values of all ranks. The memory has one part of `count` elements for each rank, in
  // rank order. `out`, which is required, gets this rank's part of the result.
  void reduce_scatter(int64_t count, Reduction reduction, const CollectiveOptions& options) const;
  // Gathers `bytes` bytes from every rank's `in` into the handle's memory, in rank order.
  void all_gather(const void* in, int64_t bytes, const CollectiveOptions& options = {}) const;
  // Copies the root's `bytes` bytes to all ranks.
  void broadcast(int64_t bytes, int root, const CollectiveOptions& options = {}) const;
  // Variants that use multicast; they throw InvalidArgument if multicast is not available. The
  // hardware chooses the order in which it combines floating-point values, so results may differ
  // from those of the functions above. Without `out`, the results are the same on all ranks. With
  // `out`, each rank loads the values separately, so results may differ between ranks.
  void multimem_all_reduce(int64_t count, Reduction reduction = {},
                           const CollectiveOptions& options = {}) const;
  void multimem_reduce(int64_t count, int root, Reduction reduction,
                       const CollectiveOptions& options) const;
  void multimem_all_gather(const void* in, int64_t bytes,
                           const CollectiveOptions& options = {}) const;
  // Exchanges data between all pairs of ranks. The memory has `bytes` bytes for each rank, in rank
  // order. `out`, which is required, gets `bytes` bytes from each rank.
  void all_to_all(int64_t bytes, const CollectiveOptions& options) const;
  // Like all_to_all, with a different number of rows for each rank.
  void all_to_all_v(const RowExchange& rows, const CollectiveOptions& options) const;
  // Sends rows to experts. The slices to send are in the order of the receivers (expert e of rank r
  // is slice E * r + e); the received slices are in the order of the experts (the slice from rank r
  // for expert e is slice W * e + r). With one expert per rank, this is an all_to_all_v whose
  // splits are read when the operation runs. `out` is required. If the rows do not fit, this rank
  // gets InvalidArgument, and the elements of out_splits and out_offsets are valid.
  void dispatch(const ExpertExchange& rows, const CollectiveOptions& options) const;
  // The reverse of dispatch: the slices to send are in the order of the experts, and the received
  // slices in the order of the ranks. The out_splits and out_offsets of a dispatch are the `splits`
  // and `offsets` that send the rows back.
  void combine(const ExpertExchange& rows, const CollectiveOptions& options) const;

 private:
  friend class Group;
  struct Impl;
  struct ElementRange {
    int64_t count = 0;
    int64_t offset = 0;  // in elements
    size_t element_bytes = 1;
    size_t alignment = 1;
  };
  explicit Handle(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  template <typename T>
  void* checked_view(int rank, int64_t count, int64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return view_of(rank, {count, offset, sizeof(T), alignof(T)});
  }
  template <typename T>
  void* checked_pad(int rank, int64_t count, int64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return pad_of(rank, {count, offset, sizeof(T), alignof(T)});
  }
  void* view_of(int rank, const ElementRange& range) const;
  void* pad_of(int rank, const ElementRange& range) const;

  // Returns a copy of the options with offset_bytes set to the offset of `elements` and, unless
  // `out` is null, with `out`. Throws InvalidArgument if the elements do not begin in this rank's
  // memory.
  template <typename T>
  CollectiveOptions options_for(std::span<T> elements, CollectiveOptions options,
                                void* out = nullptr) const {
    options.offset_bytes = offset_of(elements.data());
    if (out != nullptr) options.out = out;
    return options;
  }
  int64_t offset_of(const void* address) const;
  static void check_size(const char* name, int64_t size, int64_t expected);

  std::shared_ptr<const Impl> impl_;  // shared by copies of the handle
};

}  // namespace ashlar::symm
