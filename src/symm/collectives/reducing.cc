// SPDX-License-Identifier: Apache-2.0
//
// All-reduce, reduce and reduce-scatter.
#include "symm/collectives/reducing.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/text.h"
#include "symm/collectives/part.h"

namespace ashlar::symm {
namespace {

using Scratch = std::vector<std::byte>;

// What is reduced before it is sent on: it stays in the second cache meanwhile.
constexpr size_t kChunkBytes = size_t{64} * 1024;
// What is fetched from another machine at a time: many round trips long.
constexpr size_t kFetchedBytes = size_t{512} * 1024;
// Where all ranks' bytes are. Made before the ranks meet: whoever has no memory for it must not
// find out when the others count on him.
class Sources {
 public:
  // `most_bytes`: of a part.
  Sources(const Team& team, const Piece& piece, size_t most_bytes) : piece_(piece) {
    const auto ranks = static_cast<size_t>(team.world_size());
    if (ranks > few_.size()) many_.resize(ranks);
    all_ = {many_.empty() ? few_.data() : many_.data(), ranks};
    if (piece.remote == nullptr) return;
    fetched_bytes_ = std::min(most_bytes, kFetchedBytes);
    fetched_.resize(fetched_bytes_ * ranks);
  }
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  // All ranks' bytes of that part, reduced to `out`.
  Status reduce_to(std::byte* out, const Reduction& what, Part part, Deadline deadline) {
    if (piece_.remote == nullptr) {
      for (size_t rank = 0; rank < all_.size(); ++rank) {
        all_[rank] = piece_.of(static_cast<int>(rank)) + part.begin_bytes;
      }
      reduce(what, all_, out, part.bytes / element_bytes(what.type));
      return {};
    }
    for (size_t done = 0; done < part.bytes; done += fetched_bytes_) {
      const Part chunk{.begin_bytes = part.begin_bytes + done,
                       .bytes = std::min(fetched_bytes_, part.bytes - done)};
      if (Status found = find(chunk, deadline); !found.ok()) return found;
      reduce(what, all_, out + done, chunk.bytes / element_bytes(what.type));
    }
    return {};
  }

 private:
  Status find(Part chunk, Deadline deadline) {
    for (size_t at = 0; at < all_.size(); ++at) {
      const int rank = static_cast<int>(at);
      if (!piece_.is_remote(rank)) {
        all_[at] = piece_.of(rank) + chunk.begin_bytes;
        continue;
      }
      std::byte* here = fetched_.data() + at * fetched_bytes_;
      Status got = piece_.fetch(rank, chunk.begin_bytes, {here, chunk.bytes}, deadline);
      if (!got.ok()) return got;
      all_[at] = here;
    }
    return {};
  }

  const Piece& piece_;
  std::array<const std::byte*, 16> few_{};  // few ranks need no allocation
  std::vector<const std::byte*> many_;
  std::span<const std::byte*> all_;
  std::vector<std::byte> fetched_;  // a chunk of each rank's; of those on this machine unused
  size_t fetched_bytes_ = 0;        // of each: a multiple of every element, or all there is
};

// The first step of those that need scratch, for the same reason.
OrderGuard::Step make_room(size_t bytes) {
  return [bytes](OrderGuard::Progress& progress) -> Status {
    if (progress.scratch.size() < bytes) progress.scratch.resize(bytes);
    return {};
  };
}

// The size of the piece, or what is wrong with the request.
Result<size_t> check(const Team& team, const AllReduce& request) {
  if (Status wrong = check_reducible(request.what.type, request.what.op); !wrong.ok()) return wrong;
  const size_t element = element_bytes(request.what.type);
  Result<size_t> bytes = checked_bytes("count", request.count, element);
  if (!bytes.ok()) return bytes;
  if (Status wrong = check_piece(team, request.piece, *bytes, element); !wrong.ok()) return wrong;
  if (request.out != nullptr) {
    const std::span<const std::byte> own(request.piece.of(team.rank()), *bytes);
    Status wrong = check_apart("out", request.out, *bytes, element, own);
    if (!wrong.ok()) return wrong;
  }
  return bytes;
}

// Reduces this rank's part a chunk at a time, and writes each to all ranks. Nobody else reads or
// writes that part of anybody's piece.
Status reduce_and_send(const Team& team, Sources& sources, const AllReduce& request, size_t bytes) {
  const Part part = part_of(team.rank(), team.world_size(), bytes);
  for (size_t done = 0; done < part.bytes; done += kChunkBytes) {
    const Part chunk{.begin_bytes = part.begin_bytes + done,
                     .bytes = std::min(kChunkBytes, part.bytes - done)};
    std::byte* own = request.piece.of(team.rank()) + chunk.begin_bytes;
    Status reduced = sources.reduce_to(own, request.what, chunk, Deadline::never());
    if (!reduced.ok()) return reduced;
    for (int step = 1; step < team.world_size(); ++step) {
      const int peer = (team.rank() + step) % team.world_size();
      copy_bytes(request.piece.of(peer) + chunk.begin_bytes, own, chunk.bytes);
    }
  }
  return {};
}

// The same where some are on other machines, so that either half can be done again: first to
// scratch, then to all.
Status run_two_shot_across(const Team& team, Sources& sources, const AllReduce& request,
                           size_t bytes, const Call& call, const Limits& limits) {
  const Part part = part_of(team.rank(), team.world_size(), bytes);
  const auto work = [&](Scratch& scratch) {
    return sources.reduce_to(scratch.data(), request.what, part, limits.deadline);
  };
  const auto multicast_put = [&](Scratch& scratch) -> Status {
    for (int step = 0; step < team.world_size(); ++step) {
      const int peer = (team.rank() + step) % team.world_size();
      Status sent =
          request.piece.send(peer, part.begin_bytes, {scratch.data(), part.bytes}, limits.deadline);
      if (!sent.ok()) return sent;
    }
    return request.piece.settle(limits.deadline);
  };
  return team.order.run(call, limits.deadline,
                        {make_room(part.bytes), meet_for(team, call, limits), doing(work),
                         doing(multicast_put), meet_again(team, limits)});
}

// Whoever has an `out` reduces everything to it.
Status run_to_out(const Team& team, const AllReduce& request, const Call& call,
                  const Limits& limits) {
  Sources sources(team, request.piece, request.out == nullptr ? 0 : call.bytes);
  const Part whole{.begin_bytes = 0, .bytes = call.bytes};
  const auto work = [&](Scratch&) -> Status {
    if (request.out == nullptr) return {};
    return sources.reduce_to(request.out, request.what, whole, limits.deadline);
  };
  return team.order.run(call, limits.deadline,
                        {meet_for(team, call, limits), doing(work), meet_again(team, limits)});
}

Status run_one_shot(const Team& team, const AllReduce& request, size_t bytes,
                    const Limits& limits) {
  const Call call = call_for(Operation::kOneShotAllReduce, request, bytes);
  if (request.out != nullptr) return run_to_out(team, request, call, limits);
  Sources sources(team, request.piece, bytes);
  const Part whole{.begin_bytes = 0, .bytes = bytes};
  // Others read this rank's input until they meet again; only then is it written over. Once they
  // have met a third time, everybody's memory holds the result.
  const auto work = [&](Scratch& scratch) {
    return sources.reduce_to(scratch.data(), request.what, whole, limits.deadline);
  };
  const auto put_back = [&](Scratch& scratch) -> Status {
    copy_bytes(request.piece.of(team.rank()), scratch.data(), bytes);
    return {};
  };
  return team.order.run(call, limits.deadline,
                        {make_room(bytes), meet_for(team, call, limits), doing(work),
                         meet_again(team, limits), doing(put_back), meet_again(team, limits)});
}

Status run_two_shot(const Team& team, const AllReduce& request, size_t bytes,
                    const Limits& limits) {
  Sources sources(team, request.piece, part_of(0, team.world_size(), bytes).bytes);
  const Call call = call_for(Operation::kTwoShotAllReduce, request, bytes);
  if (request.out == nullptr && request.piece.remote != nullptr) {
    return run_two_shot_across(team, sources, request, bytes, call, limits);
  }
  if (request.out == nullptr) {
    const auto work = [&](Scratch&) { return reduce_and_send(team, sources, request, bytes); };
    return team.order.run(call, limits.deadline,
                          {meet_for(team, call, limits), doing(work), meet_again(team, limits)});
  }
  // The result of a part waits for the others in its place in the input, which is put back at last.
  const Part part = part_of(team.rank(), team.world_size(), bytes);
  std::byte* own = request.piece.of(team.rank()) + part.begin_bytes;
  const bool is_across = request.piece.remote != nullptr;
  const auto work = [&](Scratch& scratch) -> Status {
    std::byte* result = is_across ? scratch.data() + part.bytes : own;
    if (!is_across) copy_bytes(scratch.data(), own, part.bytes);
    Status reduced = sources.reduce_to(result, request.what, part, limits.deadline);
    if (!reduced.ok() || !is_across) return reduced;
    copy_bytes(scratch.data(), own, part.bytes);
    copy_bytes(own, result, part.bytes);
    return {};
  };
  const auto collect = [&](Scratch&) -> Status {
    for (int step = 0; step < team.world_size(); ++step) {
      const int peer = (team.rank() + step) % team.world_size();
      const Part theirs = part_of(peer, team.world_size(), bytes);
      std::byte* to = request.out + theirs.begin_bytes;
      Status got =
          request.piece.fetch(peer, theirs.begin_bytes, {to, theirs.bytes}, limits.deadline);
      if (!got.ok()) return got;
    }
    return {};
  };
  const auto put_back = [&](Scratch& scratch) -> Status {
    copy_bytes(own, scratch.data(), part.bytes);
    return {};
  };
  return team.order.run(
      call, limits.deadline,
      {make_room(is_across ? 2 * part.bytes : part.bytes), meet_for(team, call, limits),
       doing(work), meet_again(team, limits), doing(collect), meet_again(team, limits),
       doing(put_back), meet_again(team, limits)});
}

AllReduce without_root(const Reduce& request) {
  return {request.piece, request.count, request.what, request.out};
}

Result<size_t> check(const Team& team, const Reduce& request) {
  if (Status wrong = team.pads.slots().check_rank(request.root); !wrong.ok()) {
    return Status::invalid_argument(text("root: ", wrong.message()));
  }
  const Result<size_t> bytes = check(team, without_root(request));
  if (!bytes.ok() || *bytes == 0 || team.rank() != request.root) return bytes;
  if (request.out == nullptr)
    return Status::invalid_argument("out is null, and this rank is the root");
  return bytes;
}

Status run_to_root(const Team& team, const Reduce& request, Operation operation,
                   const Limits& limits) {
  const Result<size_t> bytes = check(team, request);
  if (!bytes.ok()) return bytes.status();
  return run_to_out(team, without_root(request), call_for(operation, request, *bytes), limits);
}

// The bytes of all parts, or what is wrong with the request.
Result<size_t> check_scatter(const Team& team, const ReduceScatter& request) {
  if (Status wrong = check_reducible(request.what.type, request.what.op); !wrong.ok()) return wrong;
  const size_t element = element_bytes(request.what.type);
  const auto ranks = static_cast<uint64_t>(team.world_size());
  const Result<size_t> total = checked_bytes("count", request.count, element * ranks);
  if (!total.ok()) return total.status();
  if (Status wrong = check_piece(team, request.piece, *total, element); !wrong.ok()) return wrong;
  const size_t bytes = *total / ranks;
  const std::byte* own = request.piece.of(team.rank());
  if (request.out != own + bytes * static_cast<size_t>(team.rank())) {
    Status wrong = check_apart("out", request.out, bytes, element, {own, *total});
    if (!wrong.ok()) return wrong;
  }
  return *total;
}

}  // namespace

Call call_for(Operation operation, const AllReduce& request, size_t bytes) {
  const int is_elsewhere = request.out == nullptr ? 0 : 1;
  return call_on(request.piece, Call::code_of(operation, request.what, is_elsewhere), bytes);
}

Call call_for(Operation operation, const Reduce& request, size_t bytes) {
  return call_on(request.piece, Call::code_of(operation, request.what, request.root), bytes);
}

Call call_for(const ReduceScatter& request, size_t total_bytes) {
  return call_on(request.piece, Call::code_of(Operation::kReduceScatter, request.what),
                 total_bytes);
}

Status check_request(const Team& team, const AllReduce& request) {
  return check(team, request).status();
}

Status check_request(const Team& team, const Reduce& request) {
  return check(team, request).status();
}

Status check_request(const Team& team, const ReduceScatter& request) {
  return check_scatter(team, request).status();
}

Status one_shot_all_reduce(const Team& team, const AllReduce& request, const Limits& limits) {
  const Result<size_t> bytes = check(team, request);
  return bytes.ok() ? run_one_shot(team, request, *bytes, limits) : bytes.status();
}

Status two_shot_all_reduce(const Team& team, const AllReduce& request, const Limits& limits) {
  const Result<size_t> bytes = check(team, request);
  return bytes.ok() ? run_two_shot(team, request, *bytes, limits) : bytes.status();
}

Status multimem_all_reduce(const Team& team, const AllReduce& request, const Limits& limits) {
  const Result<size_t> bytes = check(team, request);
  if (!bytes.ok()) return bytes.status();
  const Call call = call_for(Operation::kMultimemAllReduce, request, *bytes);
  if (request.out != nullptr) return run_to_out(team, request, call, limits);
  Sources sources(team, request.piece, part_of(0, team.world_size(), *bytes).bytes);
  const auto work = [&](Scratch&) { return reduce_and_send(team, sources, request, *bytes); };
  return team.order.run(call, limits.deadline,
                        {meet_for(team, call, limits), doing(work), meet_again(team, limits)});
}

Status all_reduce(const Team& team, const AllReduce& request, size_t one_shot_bytes,
                  const Limits& limits) {
  const Result<size_t> bytes = check(team, request);
  if (!bytes.ok()) return bytes.status();
  return *bytes <= one_shot_bytes ? run_one_shot(team, request, *bytes, limits)
                                  : run_two_shot(team, request, *bytes, limits);
}

Status reduce_to_root(const Team& team, const Reduce& request, const Limits& limits) {
  return run_to_root(team, request, Operation::kReduce, limits);
}

Status multimem_reduce(const Team& team, const Reduce& request, const Limits& limits) {
  return run_to_root(team, request, Operation::kMultimemReduce, limits);
}

Status reduce_scatter(const Team& team, const ReduceScatter& request, const Limits& limits) {
  const Result<size_t> total = check_scatter(team, request);
  if (!total.ok()) return total.status();
  const size_t bytes = *total / static_cast<uint64_t>(team.world_size());
  const Part part{.begin_bytes = bytes * static_cast<size_t>(team.rank()), .bytes = bytes};
  const Call call = call_for(request, *total);
  Sources sources(team, request.piece, bytes);
  // What came of other machines can be done again only if the input is as it was.
  const bool is_across = request.piece.remote != nullptr;
  const auto work = [&](Scratch& scratch) -> Status {
    std::byte* result = is_across ? scratch.data() : request.out;
    Status reduced = sources.reduce_to(result, request.what, part, limits.deadline);
    if (reduced.ok()) copy_bytes(request.out, result, bytes);
    return reduced;
  };
  return team.order.run(call, limits.deadline,
                        {make_room(is_across ? bytes : 0), meet_for(team, call, limits),
                         doing(work), meet_again(team, limits)});
}

}  // namespace ashlar::symm
