// SPDX-License-Identifier: Apache-2.0
//
// Symmetric memory: ranks allocate the same buffer everywhere, read and write each other's, signal,
// wait and reduce. Ranks are threads or processes, on one machine or on several; memory is the
// host's or devices'.
//
//   symm::Heap heap;                                                  // on every rank
//   symm::Group group = symm::Group::join(heap, store, {.rank = rank, .world_size = 4});
//   symm::Buffer buffer = heap.allocate(4096);
//   symm::Handle handle = group.rendezvous(buffer);
//   handle.all_reduce(1024);                                          // sum of f32, in place
//   group.leave();                                                   // all do
//
// Collective calls are made by all ranks of the group, in the same order. Every timeout of 0 is for
// ever; one that passes is a TimeoutError that says who was waited for. A rank that dies fails its
// group: whoever waits, and every later call, gets a PeerError with the same sentence. One that was
// only stopped gets one when it goes on, after at most one barrier that the others had come to
// before. Mistakes are InvalidArgument exceptions, before anything is read or written.
// docs/guide/symmetric.md has the rest.
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

#include "ashlar/atomic_op.h"
#include "ashlar/export.h"
#include "ashlar/peer_access.h"
#include "ashlar/reduction.h"
#include "ashlar/status.h"
#include "ashlar/store.h"
#include "ashlar/symmetric_heap.h"
#include "ashlar/types.h"

namespace ashlar::symm {

using Timeout = std::chrono::milliseconds;

class Transport;

// --- ranks --------------------------------------------------------------------------------------

struct GroupOptions {
  int rank = 0;
  int world_size = 1;
  std::string name = "world";  // groups of other names or members do not meet; no slashes
  std::string job = "job";     // jobs that share a store do not meet; no slashes
  int channel_count = 32;      // for barriers and signals
  // Which all-reduce is the quicker one for which size is measured when the group is joined.
  // Otherwise `one_shot_bytes` says up to where it is the one-shot one. All ranks say the same.
  bool measure_thresholds = true;
  size_t one_shot_bytes = size_t{64} * 1024;
  bool may_share_device = false;  // several ranks on one device; all ranks say the same
  bool use_multicast = true;      // where all ranks' devices have it
  // Memory of devices travels from rank to rank as fabric handles, not as descriptors, where all
  // ranks' devices have them. Between machines (of one NVLink domain) it always does.
  bool use_fabric = false;
  // The way to ranks on other machines, such as open_ucx_transport's (ashlar/ucx_transport.h); all
  // ranks bring one if not all are on one machine. Devices have fabric handles for that, and need
  // none. Null: none.
  std::shared_ptr<Transport> transport{};
  Timeout timeout{0};  // of joining
};

struct SubGroupOptions {
  std::string name = "sub";
  std::vector<int> ranks{};  // of the group it is made of, in the order of their new ranks
  bool measure_thresholds = true;
  Timeout timeout{0};
};

// What one rank's calls of a group came to, so far.
struct GroupStats {
  struct Operation {
    std::string name{};  // of the call: "put", "all_reduce"
    uint64_t count = 0;  // that went well; in a stream: that were put there
    uint64_t bytes = 0;  // of this rank's, in all of them together; of signals none
  };
  // Of joining, and of each rendezvous that was not at hand: those of the group's own memory, too.
  struct Phase {
    std::string name{};  // "mapping"
    uint64_t count = 0;
    std::chrono::nanoseconds time{0};  // in all of them together, also waiting for others
  };
  std::vector<Operation> operations{};  // those that there were
  std::vector<Phase> phases{};          // in the order in which they come

  ASHLAR_EXPORT std::string to_string() const;  // a line for each
};

class Handle;

// Ranks that have met. Operations of one group are kept in order, whichever thread calls them;
// groups are independent of each other. Lives on in its handles. Thread safe.
class ASHLAR_EXPORT Group {
 public:
  // Collective.
  static Group join(const Heap& heap, std::shared_ptr<Store> store, const GroupOptions& options);
  // Collective among `options.ranks` only, each of which calls it. Everything else is as here.
  Group sub_group(const SubGroupOptions& options) const;
  Group(Group&& other) noexcept;
  Group& operator=(Group&& other) noexcept;
  // Without leave before, and once its handles are gone too, the group fails for the others.
  ~Group();

  const std::string& name() const;
  int rank() const;
  int world_size() const;
  int channel_count() const;
  PeerAccess peer_access(int rank) const;
  bool all_direct() const;  // all ranks are
  // Which rank it is in the group that was joined, of which this may be a sub-group, however deep.
  int global_rank(int rank) const;
  // Ok while the group works; then why it does not, for good.
  Status failure() const;
  // All-reduces of up to so many bytes are done in one shot; and the table that was measured.
  size_t one_shot_bytes() const;
  std::string thresholds() const;
  // How often this rank did what, and where the time of joining and rendezvous went.
  GroupStats stats() const;

  // What all ranks wrote before it, all see after it. One that timed out is finished by calling it
  // again. Channels are independent.
  void barrier(int channel = 0, Timeout timeout = Timeout(0), std::optional<StreamId> stream = {});

  // Waits for the stream's work, and throws what the group's in it ended with, if badly. Until that
  // is told, here or by the next call, nothing more of the group is done in streams.
  void finish(StreamId stream);

  // All ranks' memory of the allocation that covers the address, which may be inside of it.
  // Collective for the first time; afterwards it is at hand. A pool's buffers are allocations.
  Handle rendezvous(const void* address, Timeout timeout = Timeout(0));
  Handle rendezvous(const Buffer& buffer, Timeout timeout = Timeout(0));

  // Collective. Throws why it was no clean end; the group is over in any case.
  void leave(Timeout timeout = Timeout(0));

 private:
  friend class Handle;
  struct Parts;
  explicit Group(std::shared_ptr<Parts> parts);
  static Group join_as(const Heap& heap, std::shared_ptr<Store> store, const GroupOptions& options,
                       const std::vector<uint64_t>& members);

  std::shared_ptr<Parts> parts_;  // also owned by handles
};

// --- what ranks do ------------------------------------------------------------------------------

// Of a collective. All but `out`, `timeout` and `stream` are the same on all ranks.
struct CollectiveOptions {
  int64_t offset_bytes = 0;  // where in the handle's memory it begins
  // Where the result goes, outside of that memory. Null: in place, where there is such a thing.
  void* out = nullptr;
  Timeout timeout{0};  // the same call made again goes on where it stopped
  // Of the heap's device: the call returns at once and the work is done in the stream's order,
  // behind the group's earlier work in any stream. Empty: it is done when the call returns.
  std::optional<StreamId> stream{};
};

// Rows for every rank, one after the other in the handle's memory, each rank with its own numbers.
// With a stream, out_splits and out_offsets are written when the work is done, not when the call
// returns: keep them until `finish`.
struct RowExchange {
  int64_t row_bytes = 0;              // the same on all ranks
  std::span<const int64_t> splits{};  // how many rows are for each rank
  int64_t out_bytes = 0;              // room at CollectiveOptions::out
  std::span<int64_t> out_splits{};    // how many rows came from each rank
  std::span<int64_t> out_offsets{};   // and from which row on they are at `out`
};

// 32 bits each, in one rank's memory, all with one value.
struct WordFill {
  enum class Of { kBuffer, kSignalPad };
  Of of = Of::kBuffer;
  int64_t offset = 0;  // in words: behind the handle's offset, or from the pad's beginning
  int64_t count = 1;   // 1 or more
  uint32_t value = 0;
};

// Every rank's memory of one allocation, from an offset on. Keeps all of it mapped, whoever has
// freed it. Views end with the last handle. Thread safe.
class ASHLAR_EXPORT Handle {
 public:
  int rank() const;
  int world_size() const;
  const std::string& group_name() const;
  PeerAccess peer_access(int rank) const;  // this and the next two: the group's
  bool all_direct() const;
  int global_rank(int rank) const;

  // --- where it is. By rank; null: the host's, on another machine. The beginnings, without the
  // offset.
  const std::vector<std::byte*>& buffer_ptrs() const;
  const std::vector<std::byte*>& signal_pad_ptrs() const;
  // The same as arrays in the memory of the heap's device, for kernels of your own; of the host's
  // memory, the arrays above. Made when one of the two is first asked for, which waits for no work
  // of others; there as long as the handle or a copy of it is. Throws OutOfMemory, DeviceError.
  std::byte* const* buffer_ptrs_on_device() const;
  std::byte* const* signal_pad_ptrs_on_device() const;
  size_t buffer_bytes() const;  // as they were asked for; of a pool, those of the segment
  size_t signal_pad_bytes() const;
  size_t offset() const;  // from the buffer's beginning to the address of the rendezvous
  // One address for all ranks' memory, with the offset; null: there is none. Stores through it
  // reach every rank, loads combine them: for kernels of devices that have multicast.
  std::byte* multicast_ptr() const;
  // Why there is none: the same sentence on all ranks. Empty: there is.
  const std::string& no_multicast_reason() const;
  // Why the memory did not travel as fabric handles: the same sentence on all ranks. Empty: it did.
  const std::string& no_fabric_reason() const;

  // `count` elements of a rank's memory, `offset` elements behind the handle's offset.
  template <typename T>
  std::span<T> view(int rank, int64_t count, int64_t offset = 0) const {
    return {static_cast<T*>(checked_view<T>(rank, count, offset)), static_cast<size_t>(count)};
  }
  // Of a rank's pad, which nobody but the user touches.
  template <typename T = uint32_t>
  std::span<T> signal_pad(int rank) const {
    return signal_pad<T>(rank, static_cast<int64_t>(signal_pad_bytes() / sizeof(T)));
  }
  template <typename T = uint32_t>
  std::span<T> signal_pad(int rank, int64_t count, int64_t offset = 0) const {
    return {static_cast<T*>(checked_pad<T>(rank, count, offset)), static_cast<size_t>(count)};
  }

  // --- one rank alone: bytes are copied when these return, also on another machine
  void put(int to, std::span<const std::byte> from, int64_t offset_bytes = 0) const;
  void get(int from, std::span<std::byte> to, int64_t offset_bytes = 0) const;

  // --- one rank alone, without waiting: several of these are on their way at once
  // Bytes may be changed when it returns; they are copied once `quiet` has.
  void post(int to, std::span<const std::byte> from, int64_t offset_bytes = 0) const;
  // A step on a word, done once `quiet` has returned; not a swap, which has an answer.
  // InvalidArgument, here and below: the memory is a device's.
  void post(int at, const AtomicOp& what) const;
  // The same at once; returns what was there before.
  uint64_t fetch(int at, const AtomicOp& what) const;
  // What this process posted before is seen by all of them before what it does afterwards.
  void fence() const;
  // What this process posted before is there.
  void quiet() const;

  // --- one rank alone, and in a stream of the heap's device if there is one: then the call returns
  // at once. Nobody is waited for or told, and like kernels of your own they are done whatever has
  // become of the group's work in that stream.
  // Who acquires one of the words sees what the stream, or the caller, did before; on another
  // machine, what the caller did to that rank's memory.
  void store_words(int to, const WordFill& what, std::optional<StreamId> stream = {}) const;
  // Memory of the device, copied to the same place in every rank's memory through multicast;
  // InvalidArgument where there is none. The place itself is fair, but nothing that overlaps it.
  void multimem_put(std::span<const std::byte> from, int64_t offset_bytes = 0,
                    std::optional<StreamId> stream = {}) const;

  // --- two ranks. What was written before a signal is seen after the wait for it.
  // With a stream of the heap's device, they are done in its order (CollectiveOptions::stream).
  // A mailbox for one signal: put waits while the one before was not taken.
  void put_signal(int to, int channel = 0, Timeout timeout = Timeout(0),
                  std::optional<StreamId> stream = {}) const;
  void wait_signal(int from, int channel = 0, Timeout timeout = Timeout(0),
                   std::optional<StreamId> stream = {}) const;
  // Counters that only grow: this rank's at another, another's at this one.
  void add_signal(int to, uint64_t amount = 1, int channel = 0,
                  std::optional<StreamId> stream = {}) const;
  void wait_for_value(int from, uint64_t value, int channel = 0, Timeout timeout = Timeout(0),
                      std::optional<StreamId> stream = {}) const;
  uint64_t counter_value(int from, int channel = 0) const;
  void barrier(int channel = 0, Timeout timeout = Timeout(0),
               std::optional<StreamId> stream = {}) const;  // the group's

  // --- all ranks. Elements are combined in rank order: all get the same bits.
  // By whichever of the two is the quicker.
  void all_reduce(int64_t count, Reduction what = {}, const CollectiveOptions& options = {}) const;
  void one_shot_all_reduce(int64_t count, Reduction what = {},
                           const CollectiveOptions& options = {}) const;
  void two_shot_all_reduce(int64_t count, Reduction what = {},
                           const CollectiveOptions& options = {}) const;
  // One rank gets it: its `out` is needed, and that of the others not looked at.
  void reduce(int64_t count, int root, Reduction what, const CollectiveOptions& options) const;
  // Each rank gets its part, of `count` elements, of the W parts; `out` is needed.
  void reduce_scatter(int64_t count, Reduction what, const CollectiveOptions& options) const;
  // All ranks' `bytes`, in rank order, in everybody's memory.
  void all_gather(const void* in, int64_t bytes, const CollectiveOptions& options = {}) const;
  void broadcast(int64_t bytes, int root, const CollectiveOptions& options = {}) const;
  // Through multicast; InvalidArgument where there is none. Hardware adds floating-point numbers in
  // an order of its own: other bits, but the same on all ranks, unless there is an `out`. Then each
  // rank loads all of it by itself, in one shot, and has the bits that it was given.
  void multimem_all_reduce(int64_t count, Reduction what = {},
                           const CollectiveOptions& options = {}) const;
  void multimem_reduce(int64_t count, int root, Reduction what,
                       const CollectiveOptions& options) const;
  void multimem_all_gather(const void* in, int64_t bytes,
                           const CollectiveOptions& options = {}) const;
  // The memory has a share of `bytes` for each rank; `out`, from each rank, is needed.
  void all_to_all(int64_t bytes, const CollectiveOptions& options) const;
  void all_to_all_v(const RowExchange& rows, const CollectiveOptions& options) const;

 private:
  friend class Group;
  struct Parts;
  struct Extent {
    int64_t count = 0;
    int64_t offset = 0;  // in elements
    size_t element_bytes = 1;
    size_t alignment = 1;
  };
  explicit Handle(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

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
  void* view_of(int rank, const Extent& extent) const;
  void* pad_of(int rank, const Extent& extent) const;

  std::shared_ptr<const Parts> parts_;  // copies of a handle are one handle
};

}  // namespace ashlar::symm
