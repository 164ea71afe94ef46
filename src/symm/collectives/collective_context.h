// SPDX-License-Identifier: Apache-2.0
//
// The parts that all collectives share: the description of the ranks and of the memory, argument
// checks, and the steps that synchronize with the other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ashlar/status.h"
#include "symm/collectives/collective_runner.h"
#include "symm/signals/barrier.h"
#include "symm/signals/signal_pad.h"
#include "symm/transports/remote_memory.h"

namespace ashlar::symm {

// One rank's view of a group for collectives.
struct CollectiveContext {
  const SignalPads& pads;
  CollectiveRunner& runner;
  int channel = 0;  // reserved for collectives

  int rank() const { return pads.rank(); }
  int world_size() const { return pads.world_size(); }
};

// The same range in every rank's buffer.
struct SymmetricRange {
  // The buffer of each rank, indexed by rank; null for a rank that is reached through `remote`.
  std::span<std::byte* const> bases{};
  size_t buffer_bytes = 0;  // the size of each buffer
  int64_t offset_bytes = 0;
  uint32_t memory = 0;  // identifies the buffers; equal on all ranks (PeerHandle::memory_id)
  const RemoteMemory* remote = nullptr;  // the ranks on other machines; null if there are none
  uint64_t remote_begin = 0;             // the offset of the buffer in each remote region

  // Returns the start of the range in the buffer of `rank`. REQUIRES: check_range returned ok, and
  // `rank` is on this machine.
  std::byte* address(int rank) const { return bases[static_cast<size_t>(rank)] + offset_bytes; }
  bool is_remote(int rank) const { return bases[static_cast<size_t>(rank)] == nullptr; }

  // `read` and `write` copy from and to the range of a rank on any machine. `begin` is relative to
  // the range. REQUIRES: check_range returned ok.
  Status read(int rank, size_t begin, std::span<std::byte> into, Deadline deadline) const;
  // The write is complete after `flush`.
  Status write(int rank, size_t begin, std::span<const std::byte> from, Deadline deadline) const;
  Status flush(Deadline deadline) const;
};

// A part of a SymmetricRange.
struct ByteRange {
  size_t begin_bytes = 0;
  size_t bytes = 0;
};

// Returns a * b. Returns kInvalidArgument, with a message that starts with `what`, if `a` is
// negative or the product does not fit int64_t.
Result<size_t> checked_bytes(const char* what, int64_t a, uint64_t b);

// Returns kInvalidArgument if the channel does not exist, the number of buffers is wrong, or the
// range is out of bounds or misaligned. Returns kUnsupported if a buffer cannot be reached.
Status check_range(const CollectiveContext& context, const SymmetricRange& range, size_t bytes,
                   size_t alignment);
// Returns kInvalidArgument if `other` is null, misaligned, or overlaps `own`. Returns ok if `bytes`
// is 0.
Status check_disjoint(const char* name, const std::byte* other, size_t bytes, size_t alignment,
                      std::span<const std::byte> own);

// Copies memory. Does nothing if `to` equals `from`. REQUIRES: the ranges are equal or disjoint.
inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// Returns the signature of a call on `bytes` bytes of the range.
inline CallSignature make_signature(const SymmetricRange& range, uint64_t code, size_t bytes) {
  return {.code = code,
          .bytes = bytes,
          .offset_bytes = static_cast<uint64_t>(range.offset_bytes),
          .memory = range.memory};
}

// Returns a step that begins a collective: it sends this rank's signature to all ranks, waits for
// their signatures and compares all of them. If the signatures differ, all ranks get the same
// outcome.
CollectiveRunner::Step announce_step(const CollectiveContext& context, const CallSignature& call,
                                     const Limits& limits);
// Writes the signature to the pad of `peer`, which reads it after the barrier. If `peer` is on
// another machine, the signature has arrived after RemotePads::quiet.
Status send_signature(const CollectiveContext& context, int peer, const CallSignature& call,
                      const Limits& limits);
// Returns a step that passes a barrier. After a mismatch, every rank passes exactly one of these
// barriers, however many its call has; then the next collective can start.
CollectiveRunner::Step barrier_step(const CollectiveContext& context, const Limits& limits);
// Returns a step that runs `work(scratch)` unless the calls did not match. Work that accesses other
// machines may time out and be repeated, so it must not overwrite its input. REQUIRES: `work`
// outlives the step.
template <typename Work>
CollectiveRunner::Step work_step(const Work& work) {
  return [&work](CollectiveRunner::Progress& progress) -> Status {
    return progress.outcome.ok() ? work(progress.scratch) : Status();
  };
}

}  // namespace ashlar::symm
