// SPDX-License-Identifier: Apache-2.0
//
// The operations of a group on symmetric memory, independent of where the memory is. On host memory
// the calling thread performs them (backends/host); on device memory they are work in a stream
// (backends/device, sim, cuda). The public API calls this interface only. Results are bit-identical
// on all back ends, except that a multicast switch adds in an unspecified order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "ashlar/status.h"
#include "ashlar/symmetric_types.h"
#include "ashlar/types.h"
#include "symm/collectives/data_movement.h"
#include "symm/collectives/expert_exchange.h"
#include "symm/collectives/reductions.h"
#include "symm/collectives/thresholds.h"
#include "symm/core/failure.h"
#include "symm/core/in_flight_work.h"
#include "symm/memory/peer_table.h"

namespace ashlar::symm {

// A request to signal, to wait for a signal, or to pass a barrier.
struct Signal {
  enum class Kind { kPut, kWait, kAdd, kWaitForValue, kBarrier };
  Kind kind = Kind::kBarrier;
  int rank = 0;  // the peer; unused by barriers
  int channel = 0;
  uint64_t value = 0;  // the value to add or to wait for
};

// An all-reduce that is one-shot up to `one_shot_bytes` and two-shot above. 0 selects the two-shot
// algorithm for all sizes, and SIZE_MAX the one-shot algorithm.
struct ThresholdAllReduce {
  AllReduce request{};
  size_t one_shot_bytes = 0;
};

// Collectives through multicast. `multicast` is the multicast address of the request's range. If it
// is null, the back end accesses every rank's memory instead.
struct MultimemAllReduce {
  AllReduce request{};
  std::byte* multicast = nullptr;
};
struct MultimemReduce {
  Reduce request{};
  std::byte* multicast = nullptr;
};
struct MultimemAllGather {
  AllGather request{};
  std::byte* multicast = nullptr;
};

using Collective =
    std::variant<ThresholdAllReduce, Reduce, ReduceScatter, AllGather, Broadcast, AllToAll,
                 AllToAllV, MultimemAllReduce, MultimemReduce, MultimemAllGather, ExpertAllToAll>;

// `perform` runs a request on the calling thread, by pointer or, for ranks on other machines,
// through the transport. `check` returns the errors that `perform` would return for invalid
// arguments, without accessing memory.
Status check(const CollectiveContext& context, const Collective& collective);
Status perform(const CollectiveContext& context, const Collective& collective,
               const Limits& limits);
Status check(const SignalPads& pads, const Signal& signal);
Status perform(const SignalPads& pads, const Signal& signal, const Limits& limits);

// Where an operation runs and how long it may take.
struct RunOptions {
  // If set, the operation is enqueued in the stream and the call returns immediately. Errors of the
  // enqueued work are returned by a later call or by `finish`. If empty, the operation is complete
  // on return. If the stream is capturing, the operation becomes part of the graph, which then
  // shares ownership of `in_flight->owner()`.
  std::optional<StreamId> stream{};
  std::chrono::milliseconds timeout{0};  // 0: no timeout. Starts when the operation itself starts.
  InFlightWork* in_flight = nullptr;     // tracks work in streams; null only on host memory
};

// A request to fill `count` words of one rank's memory with `value`.
struct WordFillRequest {
  int rank = 0;       // the owner of the memory
  size_t offset = 0;  // distance in bytes from the start of the user's pad; a multiple of 4
  size_t count = 0;
  uint32_t value = 0;
};
// Fills the words starting at `first`, by pointer, on the calling thread.
void store_words_at(std::byte* first, const WordFillRequest& fill);

// A request to copy bytes to the buffers of all ranks, whose memory supports multicast.
struct MulticastPut {
  std::span<const std::byte> from{};  // device memory
  size_t offset = 0;                  // the offset in every rank's buffer
  std::byte* multicast = nullptr;     // the multicast address of that offset
};

// A request to copy pieces between memory of the caller, of the same kind as the group's memory,
// and the buffer of a rank.
struct PieceCopy {
  bool is_put = true;  // whether the rank's buffer is the destination
  int rank = 0;
  size_t offset = 0;            // of the first piece, in the rank's buffer
  std::byte* caller = nullptr;  // the first piece
  size_t bytes = 0;             // of each piece
  size_t count = 1;
  size_t rank_stride = 0;  // between the beginnings of pieces
  size_t caller_stride = 0;

  size_t total_bytes() const { return bytes * count; }
};

struct OperationsOptions {
  RankInfo rank_info{};
  int channel_count = 0;  // number of the pad's channels; collectives use the last one
  std::shared_ptr<const PeerTable> pads{};  // also owned by the communicator
  std::shared_ptr<Failure> failure{};       // also owned by the communicator
  SpinPolicy spin_policy{};
};

// Thread safe. REQUIRES: the Operations outlives every `InFlightWork` passed to it.
class Operations {
 public:
  Operations() = default;
  virtual ~Operations() = default;
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // Copies bytes between the caller's memory and `offset` in a rank's buffer. Complete on return.
  // REQUIRES, for all functions with a `PeerTable`: the caller has checked the arguments.
  virtual Status put(const PeerTable& peers, int to, size_t offset,
                     std::span<const std::byte> from) = 0;
  virtual Status get(const PeerTable& peers, int from, size_t offset, std::span<std::byte> to) = 0;
  // Copies pieces. Without a stream, complete on return.
  virtual Status copy(const PeerTable& peers, const PieceCopy& copy,
                      const RunOptions& run_options) = 0;
  // Makes later work of the stream wait for earlier copies of the group in any stream. Returns
  // kUnsupported if the back end has no streams.
  virtual Status fence_stream(StreamId stream) = 0;
  // `post` starts a put or an atomic operation that may still be in flight on return. `fence`
  // orders it before later operations, and `quiet` waits for it. `fetch` performs an atomic
  // operation and returns the previous value. The offset of an atomic operation is relative to the
  // buffer. Atomic operations return kUnsupported if the back end has none.
  virtual Status post(const PeerTable& peers, int to, size_t offset,
                      std::span<const std::byte> from) {
    return put(peers, to, offset, from);
  }
  virtual Status post(const PeerTable& peers, int target, const AtomicOp& op);
  virtual Result<uint64_t> fetch(const PeerTable& peers, int target, const AtomicOp& op);
  virtual Status fence(const PeerTable& /*peers*/) { return {}; }
  virtual Status quiet(const PeerTable& /*peers*/) { return {}; }
  // Fills words, with release stores if the rank's memory is mapped, or with a fence and a put if
  // the rank is on another machine. Returns kUnsupported if the back end cannot store words.
  virtual Status store_words(const PeerTable& peers, const WordFillRequest& fill,
                             const RunOptions& run_options) = 0;
  // Copies bytes to the buffers of all ranks. REQUIRES: the memory supports multicast.
  virtual Status multicast_put(const PeerTable& peers, const MulticastPut& put,
                               const RunOptions& run_options);
  virtual Status run(const Signal& signal, const RunOptions& run_options) = 0;
  virtual Status run(const Collective& collective, const RunOptions& run_options) = 0;
  // Returns the value of this rank's counter (channel, from).
  virtual Result<uint64_t> counter_value(int from, int channel) = 0;
  // Waits for all work in the stream and returns its error, if any. Returns kUnsupported if the
  // back end has no streams.
  virtual Status finish(StreamId stream) = 0;
  // Whether a collective on device memory has ended with a timeout or with the group's failure,
  // even if the error has been returned. If so, other ranks may still be accessing this rank's
  // memory.
  virtual bool has_failed_work() { return false; }
  // Measures up to which size the one-shot all-reduce is faster. Returns nothing if the back end
  // cannot measure this group.
  virtual Result<std::optional<Thresholds>> measure(const PeerTable& scratch, size_t bytes,
                                                    Deadline deadline) = 0;
};

}  // namespace ashlar::symm
