// SPDX-License-Identifier: Apache-2.0
//
// Performs operations through pointers, or through the transport for remote ranks.
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
constexpr size_t kMaxWordsPerPut = 16384;

// Makes an offset in the buffer relative to the block, as the transport requires. The block begins
// with the user's pad.
AtomicOp to_block_offset(const PeerTable& peers, AtomicOp op) {
  op.offset += peers.buffer_offset();
  return op;
}

}  // namespace

HostOperations::HostOperations(const OperationsOptions& options)
    : options_(options), channel_mutexes_(static_cast<size_t>(options.channel_count)) {}

Result<std::unique_ptr<Operations>> HostOperations::make(const OperationsOptions& options) {
  std::unique_ptr<HostOperations> operations(new HostOperations(options));
  const PeerTable& peers = *options.pads;
  std::vector<std::byte*> bases;
  for (int rank = 0; rank < options.rank_info.world_size; ++rank) bases.push_back(peers.pad(rank));
  if (peers.remote() != nullptr) {
    operations->remote_pads_ =
        std::make_unique<RemotePads>(*peers.remote(), options.rank_info, options.channel_count);
  }
  Result<SignalPads> pads = SignalPads::make(options.rank_info.rank, options.channel_count,
                                             std::move(bases), operations->remote_pads_.get());
  if (!pads.ok()) return pads.status();
  pads->set_spin_policy(options.spin_policy);
  operations->pads_ = std::make_unique<SignalPads>(*std::move(pads));
  return std::unique_ptr<Operations>(std::move(operations));
}

// The wait for a remote rank has no deadline, so only an error, such as the group's failure, ends
// it early.
Status HostOperations::put(const PeerTable& peers, int to, size_t offset,
                           std::span<const std::byte> from) {
  if (peers.access(to) == PeerAccess::kRemote) {
    const RemoteMemory& remote = *peers.remote();
    const Status sent = remote.put(to, peers.buffer_offset() + offset, from, Deadline::never());
    return sent.ok() ? remote.quiet(to, Deadline::never()) : sent;
  }
  if (!from.empty()) std::memmove(peers.buffer(to) + offset, from.data(), from.size());
  return {};
}

Status HostOperations::get(const PeerTable& peers, int from, size_t offset,
                           std::span<std::byte> to) {
  if (peers.access(from) == PeerAccess::kRemote) {
    return peers.remote()->get(from, peers.buffer_offset() + offset, to, Deadline::never());
  }
  if (!to.empty()) std::memmove(to.data(), peers.buffer(from) + offset, to.size());
  return {};
}

// Pieces for a remote rank are in flight together.
Status HostOperations::copy(const PeerTable& peers, const PieceCopy& copy,
                            const RunOptions& run_options) {
  if (Status wrong = check_no_stream(run_options); !wrong.ok()) return wrong;
  if (copy.total_bytes() == 0) return {};
  for (size_t piece = 0; piece < copy.count; ++piece) {
    const size_t offset = copy.offset + piece * copy.rank_stride;
    const std::span<std::byte> own(copy.caller + piece * copy.caller_stride, copy.bytes);
    Status done =
        copy.is_put ? post(peers, copy.rank, offset, own) : get(peers, copy.rank, offset, own);
    if (!done.ok()) return done;
  }
  if (!copy.is_put || peers.access(copy.rank) != PeerAccess::kRemote) return {};
  return peers.remote()->quiet(copy.rank, Deadline::never());
}

Status HostOperations::fence_stream(StreamId stream) { return finish(stream); }

Status HostOperations::post(const PeerTable& peers, int to, size_t offset,
                            std::span<const std::byte> from) {
  if (peers.access(to) != PeerAccess::kRemote) return put(peers, to, offset, from);
  return peers.remote()->put(to, peers.buffer_offset() + offset, from, Deadline::never());
}

Status HostOperations::post(const PeerTable& peers, int target, const AtomicOp& op) {
  if (peers.access(target) == PeerAccess::kRemote) {
    return peers.remote()->post(target, to_block_offset(peers, op), Deadline::never());
  }
  apply_atomic_op(peers.buffer(target) + op.offset, op);
  return {};
}

Result<uint64_t> HostOperations::fetch(const PeerTable& peers, int target, const AtomicOp& op) {
  if (peers.access(target) == PeerAccess::kRemote) {
    return peers.remote()->fetch(target, to_block_offset(peers, op), Deadline::never());
  }
  return apply_atomic_op(peers.buffer(target) + op.offset, op);
}

// Plain stores to mapped memory are ordered by a CPU fence.
Status HostOperations::fence(const PeerTable& peers) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return peers.remote() == nullptr ? Status() : peers.remote()->fence(Deadline::never());
}

Status HostOperations::quiet(const PeerTable& peers) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return peers.remote() == nullptr ? Status() : peers.remote()->quiet(Deadline::never());
}

// Mapped memory gets release stores, which cost no more than plain stores on x86-64.
Status HostOperations::store_words(const PeerTable& peers, const WordFillRequest& fill,
                                   const RunOptions& run_options) {
  if (Status wrong = check_no_stream(run_options); !wrong.ok()) return wrong;
  if (peers.access(fill.rank) != PeerAccess::kRemote) {
    store_words_at(peers.pad(fill.rank) + fill.offset, fill);
    return {};
  }
  const RemoteMemory& remote = *peers.remote();
  if (Status before = remote.fence(fill.rank, Deadline::never()); !before.ok()) return before;
  const std::vector<uint32_t> words(std::min(fill.count, kMaxWordsPerPut), fill.value);
  for (size_t done = 0; done < fill.count; done += words.size()) {
    const std::span<const uint32_t> next(words.data(), std::min(words.size(), fill.count - done));
    Status sent = remote.put(fill.rank, fill.offset + done * sizeof(uint32_t), std::as_bytes(next),
                             Deadline::never());
    if (!sent.ok()) return sent;
  }
  return remote.quiet(fill.rank, Deadline::never());
}

Status HostOperations::run(const Signal& signal, const RunOptions& run_options) {
  if (Status wrong = check_no_stream(run_options); !wrong.ok()) return wrong;
  const Limits limits{*options_.failure, Deadline::of_timeout(run_options.timeout)};
  if (signal.kind == Signal::Kind::kBarrier) return barrier(signal.channel, limits);
  return perform(*pads_, signal, limits);
}

Status HostOperations::barrier(int channel, const Limits& limits) {
  if (Status wrong = pads_->slots().check_channel(channel); !wrong.ok()) return wrong;
  TimedMutex& mutex = channel_mutexes_[static_cast<size_t>(channel)];
  if (!mutex.try_lock_until(limits.deadline))
    return TimedMutex::timeout_error(text("a barrier of channel ", channel));
  const TimedLock lock(mutex);
  return symm::barrier(*pads_, channel, limits);
}

Status HostOperations::run(const Collective& collective, const RunOptions& run_options) {
  if (Status wrong = check_no_stream(run_options); !wrong.ok()) return wrong;
  return perform(context(), collective,
                 {*options_.failure, Deadline::of_timeout(run_options.timeout)});
}

Result<uint64_t> HostOperations::counter_value(int from, int channel) {
  return symm::counter_value(*pads_, from, channel);
}

Status HostOperations::finish(StreamId stream) {
  return check_no_stream({.stream = stream, .timeout = {}, .in_flight = nullptr});
}

Status HostOperations::check_no_stream(const RunOptions& run_options) {
  if (!run_options.stream) return {};
  return Status::unsupported(
      "the host's memory has no streams: leave the stream out, or use a device's memory "
      "(HeapOptions::device)");
}

Result<std::optional<Thresholds>> HostOperations::measure(const PeerTable& scratch, size_t bytes,
                                                          Deadline deadline) {
  std::vector<std::byte*> bases;
  for (int rank = 0; rank < options_.rank_info.world_size; ++rank) {
    // The algorithms are measured only if the memory of all ranks is mapped.
    if (scratch.access(rank) != PeerAccess::kDirect) return std::optional<Thresholds>();
    bases.push_back(scratch.pad(rank));
  }
  const SymmetricRange range{.bases = bases, .buffer_bytes = bytes};
  const Limits limits{.failure = *options_.failure, .deadline = deadline};
  Result<Thresholds> measured = measure_thresholds(context(), range, kMeasuringRounds, limits);
  if (!measured.ok()) return measured.status();
  return std::optional<Thresholds>(*std::move(measured));
}

}  // namespace ashlar::symm
