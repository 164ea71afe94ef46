// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a group do with their memory, wherever that is: on the host's the caller's
// thread does it (host_operations.h), on a device's a piece of work in a stream (device/). The
// facade speaks to this alone. Results have the same bits everywhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "ashlar/atomic_op.h"
#include "ashlar/status.h"
#include "ashlar/types.h"
#include "symm/collectives/moving.h"
#include "symm/collectives/reducing.h"
#include "symm/collectives/thresholds.h"
#include "symm/core/failure.h"
#include "symm/core/in_flight_work.h"
#include "symm/memory/peer_table.h"

namespace ashlar::symm {

struct Signal {
  enum class Kind { kPut, kWait, kAdd, kWaitForValue, kBarrier };
  Kind kind = Kind::kBarrier;
  int rank = 0;  // the other one; of a barrier nobody
  int channel = 0;
  uint64_t value = 0;  // to add, or to wait for
};

// One-shot up to so many bytes, and two-shot above; 0 or SIZE_MAX: always one of the two.
struct ThresholdAllReduce {
  AllReduce request{};
  size_t one_shot_bytes = 0;
};

// Through multicast. REQUIRES: the memory has it. `multicast` is where the pieces are by it, for
// back ends that have use for it; null: go by all ranks' memory.
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
                 AllToAllV, MultimemAllReduce, MultimemReduce, MultimemAllGather>;

// On the calling thread, by pointer. `check` finds what `perform` would refuse, and reads no
// memory.
Status check(const Team& team, const Collective& what);
Status perform(const Team& team, const Collective& what, const Limits& limits);
Status check(const SignalPads& pads, const Signal& what);
Status perform(const SignalPads& pads, const Signal& what, const Limits& limits);

// In which order, and until when.
struct RunOptions {
  // Empty: it is done when the call returns. Otherwise the call returns at once, and it is done in
  // the stream's order; how it ended is told by the next call, and by `finish`.
  std::optional<StreamId> stream{};
  std::chrono::milliseconds timeout{0};  // 0: for ever. Begins with the work itself.
  InFlightWork* in_flight = nullptr;  // counts what is in a stream: memory stays as long. Not null.
};

// What one rank does alone.
struct WordFillRequest {
  int rank = 0;      // whose memory
  size_t place = 0;  // from the beginning of its pad, in front of the buffer; a multiple of 4
  size_t count = 0;
  uint32_t value = 0;
};
// By pointer, on the calling thread. `first`: the first word.
void store_words_at(std::byte* first, const WordFillRequest& what);

struct MulticastPut {
  std::span<const std::byte> from{};  // the device's
  size_t place = 0;                   // in every rank's buffer
  std::byte* multicast = nullptr;     // that place by multicast, as above
};

struct OperationsOptions {
  RankInfo rank_info{};
  int channel_count = 0;                    // of the pad; collectives use the last
  std::shared_ptr<const PeerTable> pads{};  // the group's own; also owned by its circle
  std::shared_ptr<Failure> failure{};       // the group's; also owned by its circle
  SpinPolicy spin_policy{};
};

// Thread safe. Outlives the InFlight of everything it was given.
class Operations {
 public:
  Operations() = default;
  virtual ~Operations() = default;
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // Bytes between the caller's memory and `place` in a rank's buffer; done when they return.
  // REQUIRES: checked.
  virtual Status put(const PeerTable& peers, int to, size_t place,
                     std::span<const std::byte> from) = 0;
  virtual Status get(const PeerTable& peers, int from, size_t place, std::span<std::byte> to) = 0;
  // Bytes, and steps on words, that may still be on their way when these return: `fence` puts them
  // in front of what comes after it, `quiet` waits for them. The offset of a step is from the
  // beginning of the buffer. REQUIRES: checked. kUnsupported: not by this back end.
  virtual Status post(const PeerTable& peers, int to, size_t place,
                      std::span<const std::byte> from) {
    return put(peers, to, place, from);
  }
  virtual Status post(const PeerTable& peers, int at, const AtomicOp& what);
  virtual Result<uint64_t> fetch(const PeerTable& peers, int at, const AtomicOp& what);
  virtual Status fence(const PeerTable& /*peers*/) { return {}; }
  virtual Status quiet(const PeerTable& /*peers*/) { return {}; }
  // Words are stored with release; on another machine, put there after a fence. REQUIRES: checked.
  // kUnsupported: as above.
  virtual Status store_words(const PeerTable& peers, const WordFillRequest& what,
                             const RunOptions& run_options) = 0;
  // To all ranks. REQUIRES: checked, and the memory has multicast.
  virtual Status multicast_put(const PeerTable& peers, const MulticastPut& what,
                               const RunOptions& run_options);
  virtual Status run(const Signal& what, const RunOptions& run_options) = 0;
  virtual Status run(const Collective& what, const RunOptions& run_options) = 0;
  // Of this rank's counter.
  virtual Result<uint64_t> counter_value(int from, int channel) = 0;
  // Waits for all that is in the stream, and says what ended badly. kUnsupported: no streams here.
  virtual Status finish(StreamId stream) = 0;
  // Whether a collective ended by a timeout or with the group, told or not: what other ranks do
  // with this one's memory may then go on.
  virtual bool has_failed_work() { return false; }
  // Which all-reduce is the quicker, if that can be measured here.
  virtual Result<std::optional<Thresholds>> measure(const PeerTable& room, size_t bytes,
                                                    Deadline deadline) = 0;
};

}  // namespace ashlar::symm
