// SPDX-License-Identifier: Apache-2.0
//
// All-to-all with shares of different sizes. How large they are, and where in the sender's piece
// they begin, each rank writes into the notes of the others before they meet.
#include <cstring>
#include <limits>
#include <vector>

#include "base/text.h"
#include "symm/collectives/disagreement.h"
#include "symm/collectives/moving.h"
#include "symm/signals/remote_pads.h"

namespace ashlar::symm {
namespace {

Status check(const Team& team, const AllToAllV& request, const std::vector<Share>& shares) {
  const size_t total = shares.back().begin_bytes + shares.back().bytes;
  if (Status wrong = check_piece(team, request.piece, total, 1); !wrong.ok()) return wrong;
  const Result<size_t> room = checked_bytes("out_bytes", request.out_bytes, 1);
  if (!room.ok()) return room.status();
  return check_apart("out", request.out, *room, 1, {request.piece.of(team.rank()), total});
}

Status tell(const Team& team, const AllToAllV& request, const std::vector<Share>& shares,
            const Limits& limits) {
  for (int peer = 0; peer < team.world_size(); ++peer) {
    const Share& share = shares[static_cast<size_t>(peer)];
    Call call = call_for(request, share.bytes);
    call.offset_bytes += share.begin_bytes;
    if (Status told = note_for(team, peer, call, limits); !told.ok()) return told;
  }
  RemotePads* remote = team.pads.remote();
  return remote == nullptr ? Status() : remote->quiet(limits.deadline);
}

// What `peer` said that it has for this rank; the offset is from the start of its buffer.
Call heard_from(const Team& team, int peer) {
  return Call::noted_in(team.pads.line(team.rank(), team.channel, peer));
}

// Every rank sees whether all called this with the same rows and memory. Only then do the notes
// mean shares.
Status compare(const Team& team, const AllToAllV& request) {
  const uint64_t own_code = call_for(request, 0).code;
  for (int peer = 0; peer < team.world_size(); ++peer) {
    const Call call = heard_from(team, peer);
    if (call.code == own_code && call.memory == request.piece.memory) continue;
    return rows_differ(team.rank(), static_cast<uint64_t>(request.row_bytes), peer);
  }
  return {};
}

// Where all that comes goes. kInvalidArgument: not into that little room. Each word of a peer is
// read once, into `heard`, which has room for all: what was checked is what is used.
Status make_places(const Team& team, const AllToAllV& request, std::span<Call> heard) {
  const auto row_bytes = static_cast<uint64_t>(request.row_bytes);
  uint64_t begin = 0;
  for (int peer = 0; peer < team.world_size(); ++peer) {
    const size_t at = static_cast<size_t>(peer);
    const Call& share = heard[at] = heard_from(team, peer);
    // A peer's word, but never beyond its buffer.
    if (share.offset_bytes > request.piece.buffer_bytes ||
        share.bytes > request.piece.buffer_bytes - share.offset_bytes) {
      return beyond_buffer(peer, share);
    }
    request.out_splits[at] = static_cast<int64_t>(share.bytes / row_bytes);
    request.out_offsets[at] = static_cast<int64_t>(begin / row_bytes);
    begin += share.bytes;
  }
  if (begin > static_cast<uint64_t>(request.out_bytes)) {
    return no_room(static_cast<uint64_t>(request.out_bytes), begin);
  }
  return {};
}

Status receive(const Team& team, const AllToAllV& request, std::span<const Call> heard,
               const Limits& limits) {
  Piece buffer = request.piece;
  buffer.offset_bytes = 0;  // shares count from there
  const auto row_bytes = static_cast<uint64_t>(request.row_bytes);
  for (int step = 0; step < team.world_size(); ++step) {
    const int peer = (team.rank() + step) % team.world_size();
    const Call& share = heard[static_cast<size_t>(peer)];
    const auto row = static_cast<uint64_t>(request.out_offsets[static_cast<size_t>(peer)]);
    std::byte* to = request.out + row * row_bytes;
    Status got = buffer.fetch(peer, share.offset_bytes, {to, share.bytes}, limits.deadline);
    if (!got.ok()) return got;
  }
  return {};
}

}  // namespace

Result<std::vector<Share>> shares_of(const Team& team, const AllToAllV& request) {
  const auto ranks = static_cast<size_t>(team.world_size());
  if (request.row_bytes < 1) {
    return Status::invalid_argument(
        text("rows of ", request.row_bytes, " bytes: there is at least one"));
  }
  for (const auto& [name, size] : {std::pair("splits", request.splits.size()),
                                   {"out_splits", request.out_splits.size()},
                                   {"out_offsets", request.out_offsets.size()}}) {
    if (size == ranks) continue;
    return Status::invalid_argument(
        text(name, " has ", size, " entries: there are ", ranks, " ranks"));
  }
  std::vector<Share> shares;
  uint64_t begin = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const int64_t rows = request.splits[rank];
    const Result<size_t> bytes =
        checked_bytes("a split", rows, static_cast<uint64_t>(request.row_bytes));
    if (!bytes.ok()) {
      return Status::invalid_argument(
          text("the split for rank ", rank, ": ", bytes.status().message()));
    }
    shares.push_back({.begin_bytes = begin, .bytes = *bytes});
    begin += *bytes;  // of two numbers below 2^63
    if (begin > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Status::invalid_argument(
          text("the splits up to rank ", rank, " add up to more than 2^63 bytes"));
    }
  }
  return shares;
}

Call call_for(const AllToAllV& request, size_t total_bytes) {
  return call_on(request.piece,
                 Call::code_of(Operation::kAllToAllV) | static_cast<uint64_t>(request.row_bytes)
                                                            << 8,
                 total_bytes);
}

Status check_request(const Team& team, const AllToAllV& request) {
  const Result<std::vector<Share>> shares = shares_of(team, request);
  return shares.ok() ? check(team, request, *shares) : shares.status();
}

Status all_to_all_v(const Team& team, const AllToAllV& request, const Limits& limits) {
  const Result<std::vector<Share>> shares = shares_of(team, request);
  if (!shares.ok()) return shares.status();
  if (Status wrong = check(team, request, *shares); !wrong.ok()) return wrong;
  const Call call = call_for(request, shares->back().begin_bytes + shares->back().bytes);
  std::vector<Call> heard(shares->size());  // allocated before anybody counts on this rank
  const auto meet = [&](OrderGuard::Progress& progress) -> Status {
    if (Status told = tell(team, request, *shares, limits); !told.ok()) return told;
    if (Status met = barrier(team.pads, team.channel, limits); !met.ok()) return met;
    progress.outcome = compare(team, request);
    return {};
  };
  const auto work = [&](OrderGuard::Progress& progress) -> Status {
    if (progress.outcome.ok()) progress.outcome = make_places(team, request, heard);
    return progress.outcome.ok() ? receive(team, request, heard, limits) : Status();
  };
  return team.order.run(call, limits.deadline, {meet, work, meet_again(team, limits)});
}

}  // namespace ashlar::symm
