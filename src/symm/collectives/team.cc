// SPDX-License-Identifier: Apache-2.0
//
// The checks before a collective, and the meeting at its start.
#include "symm/collectives/team.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/align.h"
#include "base/text.h"
#include "symm/collectives/disagreement.h"
#include "symm/signals/remote_pads.h"

namespace ashlar::symm {
namespace {

Status tell(const Team& team, const Call& call, const Limits& limits) {
  for (int peer = 0; peer < team.world_size(); ++peer) {
    if (Status told = note_for(team, peer, call, limits); !told.ok()) return told;
  }
  RemotePads* remote = team.pads.remote();
  return remote == nullptr ? Status() : remote->quiet(limits.deadline);
}

// Every rank has the same notes from all, so either all agree or all say so.
Status compare(const Team& team) {
  const auto call_of = [&team](int rank) {
    return Call::noted_in(team.pads.line(team.rank(), team.channel, rank));
  };
  const Call first = call_of(0);
  for (int rank = 1; rank < team.world_size(); ++rank) {
    if (call_of(rank) == first) continue;
    return calls_differ(first, rank, call_of(rank));
  }
  return {};
}

}  // namespace

Result<size_t> checked_bytes(const char* what, int64_t a, uint64_t b) {
  uint64_t product = 0;
  if (a < 0) return Status::invalid_argument(text(what, " is ", a, ": it cannot be negative"));
  if (__builtin_mul_overflow(static_cast<uint64_t>(a), b, &product) ||
      product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Status::invalid_argument(
        text(what, " is ", a, ": times ", b, " bytes that is more than 2^63"));
  }
  return static_cast<size_t>(product);
}

Status check_piece(const Team& team, const Piece& piece, size_t bytes, size_t alignment) {
  if (Status wrong = team.pads.slots().check_channel(team.channel); !wrong.ok()) return wrong;
  if (piece.bases.size() != static_cast<size_t>(team.world_size())) {
    return Status::invalid_argument(
        text(piece.bases.size(), " buffers for ", team.world_size(), " ranks: each rank has one"));
  }
  for (int rank = 0; rank < team.world_size(); ++rank) {
    const std::byte* base = piece.bases[static_cast<size_t>(rank)];
    if (base == nullptr && (piece.remote == nullptr || !piece.remote->contains(rank))) {
      return Status::unsupported(text("rank ", team.rank(), " cannot reach the buffer of rank ",
                                      rank, ", neither by pointer nor by a transport"));
    }
    if (!is_aligned(reinterpret_cast<uintptr_t>(base), alignment)) {
      return Status::invalid_argument(
          text("the buffer of rank ", rank, " is not aligned to ", alignment, " bytes"));
    }
  }
  if (piece.offset_bytes < 0) {
    return Status::invalid_argument(text("offset ", piece.offset_bytes, ": it cannot be negative"));
  }
  const auto offset = static_cast<uint64_t>(piece.offset_bytes);
  if (offset > piece.buffer_bytes || bytes > piece.buffer_bytes - offset) {
    return Status::invalid_argument(text(bytes, " bytes at offset ", offset,
                                         " are not within a buffer of ", piece.buffer_bytes,
                                         " bytes"));
  }
  if (!is_aligned(offset, alignment)) {
    return Status::invalid_argument(
        text("offset ", offset, " is not a multiple of the element's ", alignment, " bytes"));
  }
  return {};
}

Status check_apart(const char* name, const std::byte* other, size_t bytes, size_t alignment,
                   std::span<const std::byte> own) {
  if (bytes == 0) return {};
  if (other == nullptr) return Status::invalid_argument(text(name, " is null"));
  const auto begin = reinterpret_cast<uintptr_t>(other);
  if (!is_aligned(begin, alignment)) {
    return Status::invalid_argument(
        text(name, " is not aligned to the element's ", alignment, " bytes"));
  }
  const auto own_begin = reinterpret_cast<uintptr_t>(own.data());
  if (begin < own_begin + own.size() && own_begin < begin + bytes) {
    return Status::invalid_argument(
        text(name, " overlaps this rank's buffer, which others read or write"));
  }
  return {};
}

Status Piece::fetch(int rank, size_t begin, std::span<std::byte> into, Deadline deadline) const {
  if (is_remote(rank)) {
    const uint64_t place = remote_begin + static_cast<uint64_t>(offset_bytes) + begin;
    return remote->get(rank, place, into, deadline);
  }
  copy_bytes(into.data(), of(rank) + begin, into.size());
  return {};
}

Status Piece::send(int rank, size_t begin, std::span<const std::byte> from,
                   Deadline deadline) const {
  if (is_remote(rank)) {
    const uint64_t place = remote_begin + static_cast<uint64_t>(offset_bytes) + begin;
    return remote->put(rank, place, from, deadline);
  }
  copy_bytes(of(rank) + begin, from.data(), from.size());
  return {};
}

Status Piece::settle(Deadline deadline) const {
  return remote == nullptr ? Status() : remote->quiet(deadline);
}

Status note_for(const Team& team, int peer, const Call& call, const Limits& limits) {
  RemotePads* remote = team.pads.remote();
  if (remote != nullptr && remote->contains(peer)) {
    PadLine line;
    call.note_in(line);
    return remote->put_notes(peer, team.channel, line, limits.deadline);
  }
  call.note_in(team.pads.line(peer, team.channel, team.rank()));
  return {};
}

OrderGuard::Step meet_for(const Team& team, const Call& call, const Limits& limits) {
  return [&team, &call, &limits](OrderGuard::Progress& progress) -> Status {
    if (Status told = tell(team, call, limits); !told.ok()) return told;
    if (Status met = barrier(team.pads, team.channel, limits); !met.ok()) return met;
    progress.outcome = compare(team);
    return {};
  };
}

OrderGuard::Step meet_again(const Team& team, const Limits& limits) {
  return [&team, &limits](OrderGuard::Progress& progress) -> Status {
    if (progress.has_left) return {};
    Status met = barrier(team.pads, team.channel, limits);
    progress.has_left = met.ok() && !progress.outcome.ok();
    return met;
  };
}

}  // namespace ashlar::symm
