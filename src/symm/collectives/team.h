// SPDX-License-Identifier: Apache-2.0
//
// What every collective begins with: who takes part, the memory it works on, the checks of it, and
// meeting the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ashlar/status.h"
#include "symm/collectives/order_guard.h"
#include "symm/signals/barrier.h"
#include "symm/signals/signal_pad.h"
#include "symm/transports/remote_memory.h"

namespace ashlar::symm {

// The ranks of a group, as one of them sees it.
struct Team {
  const SignalPads& pads;
  OrderGuard& order;
  int channel = 0;  // whose barriers nobody else uses

  int rank() const { return pads.rank(); }
  int world_size() const { return pads.world_size(); }
};

// The same place in every rank's buffer.
struct Piece {
  std::span<std::byte* const> bases{};  // of the buffers, one for each rank; null: `remote`
  size_t buffer_bytes = 0;              // of each
  int64_t offset_bytes = 0;
  uint32_t memory = 0;  // which buffers: the same number on all ranks (PeerHandle::number)
  // Those on other machines, and where in what is reached there the buffers begin. Null: none.
  const RemoteMemory* remote = nullptr;
  uint64_t remote_begin = 0;

  // REQUIRES: checked, and not on another machine.
  std::byte* of(int rank) const { return bases[static_cast<size_t>(rank)] + offset_bytes; }
  bool is_remote(int rank) const { return bases[static_cast<size_t>(rank)] == nullptr; }

  // --- wherever the rank is. REQUIRES: checked. `begin`: behind the offset.
  // Bytes of a rank's piece, copied here.
  Status fetch(int rank, size_t begin, std::span<std::byte> into, Deadline deadline) const;
  // The other way; they are there once all are settled.
  Status send(int rank, size_t begin, std::span<const std::byte> from, Deadline deadline) const;
  Status settle(Deadline deadline) const;
};

// a * b, or kInvalidArgument with `what` it was if one is negative or it does not fit a buffer.
Result<size_t> checked_bytes(const char* what, int64_t a, uint64_t b);

// kInvalidArgument: the channel does not exist, there is not a buffer for each rank, `bytes` at the
// offset are not within them, or not aligned. kUnsupported: a buffer that cannot be reached.
Status check_piece(const Team& team, const Piece& piece, size_t bytes, size_t alignment);
// kInvalidArgument: `other` is null though bytes are wanted, not aligned, or shares some with
// `own`.
Status check_apart(const char* name, const std::byte* other, size_t bytes, size_t alignment,
                   std::span<const std::byte> own);

// Nothing, if they are the same.
inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// What a rank calls, with so many bytes of the piece.
inline Call call_on(const Piece& piece, uint64_t code, size_t bytes) {
  return {.code = code,
          .bytes = bytes,
          .offset_bytes = static_cast<uint64_t>(piece.offset_bytes),
          .memory = piece.memory};
}

// The first step of a collective: tells all what this rank calls and meets them. If they call
// different things, all find out, and the outcome names who.
OrderGuard::Step meet_for(const Team& team, const Call& call, const Limits& limits);
// Writes it where that rank reads it after meeting; for one on another machine, once pads are
// quiet.
Status note_for(const Team& team, int peer, const Call& call, const Limits& limits);
// A barrier. Ranks that disagree meet once, however many barriers their calls would have had: after
// that nobody compares any more, and the next operation can begin.
OrderGuard::Step meet_again(const Team& team, const Limits& limits);
// Does `work(scratch)` unless the ranks disagree. What reaches other machines can time out, and is
// then done again: it must not have written over what it reads.
template <typename Work>
OrderGuard::Step doing(const Work& work) {
  return [&work](OrderGuard::Progress& progress) -> Status {
    return progress.outcome.ok() ? work(progress.scratch) : Status();
  };
}

}  // namespace ashlar::symm
