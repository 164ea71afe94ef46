// SPDX-License-Identifier: Apache-2.0
//
// All-gather, broadcast and all-to-all.
#include "symm/collectives/moving.h"

#include "base/text.h"

namespace ashlar::symm {
namespace {

using Scratch = std::vector<std::byte>;

// `act(peer)` for every rank, this one first, so that not all turn to the same one at once.
template <typename Act>
Status for_each_peer(const Team& team, const Act& act) {
  for (int step = 0; step < team.world_size(); ++step) {
    if (Status done = act((team.rank() + step) % team.world_size()); !done.ok()) return done;
  }
  return {};
}

// The bytes of all shares, or what is wrong with the request.
Result<size_t> check(const Team& team, const AllGather& request) {
  const auto ranks = static_cast<uint64_t>(team.world_size());
  const Result<size_t> total = checked_bytes("bytes", request.bytes, ranks);
  if (!total.ok()) return total.status();
  if (Status wrong = check_piece(team, request.piece, *total, 1); !wrong.ok()) return wrong;
  const size_t bytes = *total / ranks;
  const std::byte* own = request.piece.of(team.rank());
  if (request.in != own + bytes * static_cast<size_t>(team.rank())) {
    Status wrong = check_apart("in", request.in, bytes, 1, {own, *total});
    if (!wrong.ok()) return wrong;
  }
  return *total;
}

Result<size_t> check(const Team& team, const Broadcast& request) {
  const Result<size_t> bytes = checked_bytes("bytes", request.bytes, 1);
  if (!bytes.ok()) return bytes.status();
  if (Status wrong = check_piece(team, request.piece, *bytes, 1); !wrong.ok()) return wrong;
  if (Status wrong = team.pads.slots().check_rank(request.root); !wrong.ok()) {
    return Status::invalid_argument(text("root: ", wrong.message()));
  }
  if (request.out != nullptr) {
    const std::byte* own = request.piece.of(team.rank());
    Status wrong = check_apart("out", request.out, *bytes, 1, {own, *bytes});
    if (!wrong.ok()) return wrong;
  }
  return *bytes;
}

Result<size_t> check(const Team& team, const AllToAll& request) {
  const auto ranks = static_cast<uint64_t>(team.world_size());
  const Result<size_t> total = checked_bytes("bytes", request.bytes, ranks);
  if (!total.ok()) return total.status();
  if (Status wrong = check_piece(team, request.piece, *total, 1); !wrong.ok()) return wrong;
  const std::span<const std::byte> own(request.piece.of(team.rank()), *total);
  if (Status wrong = check_apart("out", request.out, *total, 1, own); !wrong.ok()) return wrong;
  return *total;
}

Status gather(Operation operation, const Team& team, const AllGather& request,
              const Limits& limits) {
  const Result<size_t> total = check(team, request);
  if (!total.ok()) return total.status();
  const size_t bytes = *total / static_cast<uint64_t>(team.world_size());
  const size_t begin = bytes * static_cast<size_t>(team.rank());
  const Call call = call_on(request.piece, Call::code_of(operation), bytes);
  const auto work = [&](Scratch&) -> Status {
    const Status sent = for_each_peer(team, [&](int peer) {
      return request.piece.send(peer, begin, {request.in, bytes}, limits.deadline);
    });
    return sent.ok() ? request.piece.settle(limits.deadline) : sent;
  };
  return team.order.run(call, limits.deadline,
                        {meet_for(team, call, limits), doing(work), meet_again(team, limits)});
}

}  // namespace

Status check_request(const Team& team, const AllGather& request) {
  return check(team, request).status();
}
Status check_request(const Team& team, const Broadcast& request) {
  return check(team, request).status();
}
Status check_request(const Team& team, const AllToAll& request) {
  return check(team, request).status();
}

Status all_gather(const Team& team, const AllGather& request, const Limits& limits) {
  return gather(Operation::kAllGather, team, request, limits);
}

Status multimem_all_gather(const Team& team, const AllGather& request, const Limits& limits) {
  return gather(Operation::kMultimemAllGather, team, request, limits);
}

Status broadcast(const Team& team, const Broadcast& request, const Limits& limits) {
  const Result<size_t> bytes = check(team, request);
  if (!bytes.ok()) return bytes.status();
  const Call call =
      call_on(request.piece, Call::code_of(Operation::kBroadcast, {}, request.root), *bytes);
  const auto work = [&](Scratch&) {
    std::byte* to = request.out == nullptr ? request.piece.of(team.rank()) : request.out;
    return request.piece.fetch(request.root, 0, {to, *bytes}, limits.deadline);
  };
  return team.order.run(call, limits.deadline,
                        {meet_for(team, call, limits), doing(work), meet_again(team, limits)});
}

Status all_to_all(const Team& team, const AllToAll& request, const Limits& limits) {
  const Result<size_t> total = check(team, request);
  if (!total.ok()) return total.status();
  const size_t bytes = *total / static_cast<uint64_t>(team.world_size());
  const size_t begin = bytes * static_cast<size_t>(team.rank());
  const Call call = call_on(request.piece, Call::code_of(Operation::kAllToAll), bytes);
  const auto work = [&](Scratch&) {
    return for_each_peer(team, [&](int peer) {
      std::byte* to = request.out + bytes * static_cast<size_t>(peer);
      return request.piece.fetch(peer, begin, {to, bytes}, limits.deadline);
    });
  };
  return team.order.run(call, limits.deadline,
                        {meet_for(team, call, limits), doing(work), meet_again(team, limits)});
}

}  // namespace ashlar::symm
