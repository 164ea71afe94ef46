// SPDX-License-Identifier: Apache-2.0
//
// Inline, and at once.
#include "symm/backends/host/host_operations.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/text.h"
#include "symm/core/atomic_word.h"
#include "symm/signals/barrier.h"
#include "symm/signals/signals.h"

namespace ashlar::symm {
namespace {

constexpr int kMeasuringRounds = 3;
constexpr size_t kMaxWordsAtOnce = 16384;  // that are on their way to another machine

// Another machine counts from the pad on.
AtomicOp behind_front(const PeerTable& peers, AtomicOp what) {
  what.offset += peers.buffer_offset();
  return what;
}

}  // namespace

HostOperations::HostOperations(const OperationsOptions& options)
    : options_(options), channel_mutexes_(static_cast<size_t>(options.channel_count)) {}

Result<std::unique_ptr<Operations>> HostOperations::make(const OperationsOptions& options) {
  std::unique_ptr<HostOperations> made(new HostOperations(options));
  const PeerTable& peers = *options.pads;
  std::vector<std::byte*> bases;
  for (int rank = 0; rank < options.rank_info.world_size; ++rank) bases.push_back(peers.pad(rank));
  if (peers.remote() != nullptr) {
    made->remote_pads_ =
        std::make_unique<RemotePads>(*peers.remote(), options.rank_info, options.channel_count);
  }
  Result<SignalPads> pads = SignalPads::over(options.rank_info.rank, options.channel_count,
                                             std::move(bases), made->remote_pads_.get());
  if (!pads.ok()) return pads.status();
  pads->set_spin_policy(options.spin_policy);
  made->pads_ = std::make_unique<SignalPads>(*std::move(pads));
  return std::unique_ptr<Operations>(std::move(made));
}

// To another machine for as long as it takes: the group's failure ends it.
Status HostOperations::put(const PeerTable& peers, int to, size_t place,
                           std::span<const std::byte> from) {
  if (peers.access(to) == PeerAccess::kRemote) {
    const RemoteMemory& remote = *peers.remote();
    const Status sent = remote.put(to, peers.buffer_offset() + place, from, Deadline::never());
    return sent.ok() ? remote.quiet(to, Deadline::never()) : sent;
  }
  if (!from.empty()) std::memmove(peers.buffer(to) + place, from.data(), from.size());
  return {};
}

Status HostOperations::get(const PeerTable& peers, int from, size_t place,
                           std::span<std::byte> to) {
  if (peers.access(from) == PeerAccess::kRemote) {
    return peers.remote()->get(from, peers.buffer_offset() + place, to, Deadline::never());
  }
  if (!to.empty()) std::memmove(to.data(), peers.buffer(from) + place, to.size());
  return {};
}

Status HostOperations::post(const PeerTable& peers, int to, size_t place,
                            std::span<const std::byte> from) {
  if (peers.access(to) != PeerAccess::kRemote) return put(peers, to, place, from);
  return peers.remote()->put(to, peers.buffer_offset() + place, from, Deadline::never());
}

Status HostOperations::post(const PeerTable& peers, int at, const AtomicOp& what) {
  if (peers.access(at) == PeerAccess::kRemote) {
    return peers.remote()->post(at, behind_front(peers, what), Deadline::never());
  }
  apply_atomic_op(peers.buffer(at) + what.offset, what);
  return {};
}

Result<uint64_t> HostOperations::fetch(const PeerTable& peers, int at, const AtomicOp& what) {
  if (peers.access(at) == PeerAccess::kRemote) {
    return peers.remote()->fetch(at, behind_front(peers, what), Deadline::never());
  }
  return apply_atomic_op(peers.buffer(at) + what.offset, what);
}

// Plain stores to peers on this machine are ordered by the processor's own fence.
Status HostOperations::fence(const PeerTable& peers) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return peers.remote() == nullptr ? Status() : peers.remote()->fence(Deadline::never());
}

Status HostOperations::quiet(const PeerTable& peers) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return peers.remote() == nullptr ? Status() : peers.remote()->quiet(Deadline::never());
}

// Each with release: on most processors that costs nothing.
Status HostOperations::store_words(const PeerTable& peers, const WordFillRequest& what,
                                   const RunOptions& run_options) {
  if (Status wrong = refuse(run_options); !wrong.ok()) return wrong;
  if (peers.access(what.rank) != PeerAccess::kRemote) {
    store_words_at(peers.pad(what.rank) + what.place, what);
    return {};
  }
  const RemoteMemory& remote = *peers.remote();
  if (Status before = remote.fence(what.rank, Deadline::never()); !before.ok()) return before;
  const std::vector<uint32_t> words(std::min(what.count, kMaxWordsAtOnce), what.value);
  for (size_t done = 0; done < what.count; done += words.size()) {
    const std::span<const uint32_t> next(words.data(), std::min(words.size(), what.count - done));
    Status sent = remote.put(what.rank, what.place + done * sizeof(uint32_t), std::as_bytes(next),
                             Deadline::never());
    if (!sent.ok()) return sent;
  }
  return remote.quiet(what.rank, Deadline::never());
}

Status HostOperations::run(const Signal& what, const RunOptions& run_options) {
  if (Status wrong = refuse(run_options); !wrong.ok()) return wrong;
  const Limits limits{*options_.failure, Deadline::of_timeout(run_options.timeout)};
  if (what.kind == Signal::Kind::kBarrier) return barrier(what.channel, limits);
  return perform(*pads_, what, limits);
}

Status HostOperations::barrier(int channel, const Limits& limits) {
  if (Status wrong = pads_->slots().check_channel(channel); !wrong.ok()) return wrong;
  TimedMutex& mutex = channel_mutexes_[static_cast<size_t>(channel)];
  if (!mutex.try_lock_until(limits.deadline))
    return TimedMutex::timeout_error(text("a barrier of channel ", channel));
  const TimedLock lock(mutex);
  return symm::barrier(*pads_, channel, limits);
}

Status HostOperations::run(const Collective& what, const RunOptions& run_options) {
  if (Status wrong = refuse(run_options); !wrong.ok()) return wrong;
  return perform(team(), what, {*options_.failure, Deadline::of_timeout(run_options.timeout)});
}

Result<uint64_t> HostOperations::counter_value(int from, int channel) {
  return symm::counter_value(*pads_, from, channel);
}

Status HostOperations::finish(StreamId stream) {
  return refuse({.stream = stream, .timeout = {}, .in_flight = nullptr});
}

Status HostOperations::refuse(const RunOptions& run_options) {
  if (!run_options.stream) return {};
  return Status::unsupported(
      "the host's memory has no streams: leave the stream out, or use a device's memory "
      "(HeapOptions::device)");
}

Result<std::optional<Thresholds>> HostOperations::measure(const PeerTable& room, size_t bytes,
                                                          Deadline deadline) {
  std::vector<std::byte*> bases;
  for (int rank = 0; rank < options_.rank_info.world_size; ++rank) {
    // Only peers within reach are asked which way is the quicker.
    if (room.access(rank) != PeerAccess::kDirect) return std::optional<Thresholds>();
    bases.push_back(room.pad(rank));
  }
  const Piece piece{.bases = bases, .buffer_bytes = bytes};
  const Limits limits{.failure = *options_.failure, .deadline = deadline};
  Result<Thresholds> measured = measure_thresholds(team(), piece, kMeasuringRounds, limits);
  if (!measured.ok()) return measured.status();
  return std::optional<Thresholds>(*std::move(measured));
}

}  // namespace ashlar::symm
