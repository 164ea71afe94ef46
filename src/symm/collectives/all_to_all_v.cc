// SPDX-License-Identifier: Apache-2.0
//
// All-to-all with shares of different sizes. Before the first barrier, each rank writes the size
// and offset of each share to the pad of its receiver.
#include <cstring>
#include <limits>
#include <vector>

#include "base/text.h"
#include "symm/collectives/collective_errors.h"
#include "symm/collectives/data_movement.h"
#include "symm/signals/remote_pads.h"

namespace ashlar::symm {
namespace {

Status check(const CollectiveContext& context, const AllToAllV& request,
             const std::vector<ByteRange>& shares) {
  const size_t total = shares.back().begin_bytes + shares.back().bytes;
  if (Status wrong = check_range(context, request.range, total, 1); !wrong.ok()) return wrong;
  const Result<size_t> room = checked_bytes("out_bytes", request.out_bytes, 1);
  if (!room.ok()) return room.status();
  return check_disjoint("out", request.out, *room, 1,
                        {request.range.address(context.rank()), total});
}

Status announce(const CollectiveContext& context, const AllToAllV& request,
                const std::vector<ByteRange>& shares, const Limits& limits) {
  for (int peer = 0; peer < context.world_size(); ++peer) {
    const ByteRange& share = shares[static_cast<size_t>(peer)];
    CallSignature call = signature_of(request, share.bytes);
    call.offset_bytes += share.begin_bytes;
    if (Status sent = send_signature(context, peer, call, limits); !sent.ok()) return sent;
  }
  RemotePads* remote = context.pads.remote();
  return remote == nullptr ? Status() : remote->quiet(limits.deadline);
}

// Returns the share that `peer` announced for this rank. Its offset is relative to the buffer.
CallSignature received_signature(const CollectiveContext& context, int peer) {
  return CallSignature::read_from(context.pads.line(context.rank(), context.channel, peer));
}

// Checks that all ranks called all-to-all-v with the same row size and memory as this rank. Only
// then do the signatures describe shares.
Status check_same_call(const CollectiveContext& context, const AllToAllV& request) {
  const uint64_t own_code = signature_of(request, 0).code;
  for (int peer = 0; peer < context.world_size(); ++peer) {
    const CallSignature call = received_signature(context, peer);
    if (call.code == own_code && call.memory == request.range.memory) continue;
    return mismatched_rows_error(context.rank(), static_cast<uint64_t>(request.row_bytes), peer);
  }
  return {};
}

// Computes where incoming rows are written. Returns kInvalidArgument if `out` is too small, or if a
// share is not inside its sender's buffer. Reads the signature of each peer once, into `incoming`,
// so that a peer cannot change a value between check and use.
Status plan_output(const CollectiveContext& context, const AllToAllV& request,
                   std::span<CallSignature> incoming) {
  const auto row_bytes = static_cast<uint64_t>(request.row_bytes);
  uint64_t begin = 0;
  for (int peer = 0; peer < context.world_size(); ++peer) {
    const size_t at = static_cast<size_t>(peer);
    const CallSignature& share = incoming[at] = received_signature(context, peer);
    // Do not trust the peer: the share must be inside the peer's buffer.
    if (share.offset_bytes > request.range.buffer_bytes ||
        share.bytes > request.range.buffer_bytes - share.offset_bytes) {
      return share_out_of_range_error(peer, share);
    }
    request.out_splits[at] = static_cast<int64_t>(share.bytes / row_bytes);
    request.out_offsets[at] = static_cast<int64_t>(begin / row_bytes);
    begin += share.bytes;
  }
  if (begin > static_cast<uint64_t>(request.out_bytes)) {
    return output_too_small_error(static_cast<uint64_t>(request.out_bytes), begin);
  }
  return {};
}

Status receive(const CollectiveContext& context, const AllToAllV& request,
               std::span<const CallSignature> incoming, const Limits& limits) {
  SymmetricRange buffer = request.range;
  buffer.offset_bytes = 0;  // shares are relative to the buffer
  const auto row_bytes = static_cast<uint64_t>(request.row_bytes);
  for (int step = 0; step < context.world_size(); ++step) {
    const int peer = (context.rank() + step) % context.world_size();
    const CallSignature& share = incoming[static_cast<size_t>(peer)];
    const auto row = static_cast<uint64_t>(request.out_offsets[static_cast<size_t>(peer)]);
    std::byte* to = request.out + row * row_bytes;
    Status got = buffer.read(peer, share.offset_bytes, {to, share.bytes}, limits.deadline);
    if (!got.ok()) return got;
  }
  return {};
}

}  // namespace

Result<std::vector<ByteRange>> split_shares(const CollectiveContext& context,
                                            const AllToAllV& request) {
  const auto ranks = static_cast<size_t>(context.world_size());
  if (request.row_bytes < 1) {
    return Status::invalid_argument(
        text("rows of ", request.row_bytes, " bytes: expected at least 1"));
  }
  for (const auto& [name, size] : {std::pair("splits", request.splits.size()),
                                   {"out_splits", request.out_splits.size()},
                                   {"out_offsets", request.out_offsets.size()}}) {
    if (size == ranks) continue;
    return Status::invalid_argument(
        text(name, " has ", size, " entries: expected ", ranks, ", one per rank"));
  }
  std::vector<ByteRange> shares;
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
    begin += *bytes;  // cannot overflow: both terms are below 2^63
    if (begin > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Status::invalid_argument(
          text("the splits up to rank ", rank, " add up to more than 2^63 bytes"));
    }
  }
  return shares;
}

CallSignature signature_of(const AllToAllV& request, size_t total_bytes) {
  return make_signature(request.range,
                        CallSignature::encode(CollectiveKind::kAllToAllV) |
                            static_cast<uint64_t>(request.row_bytes) << 8,
                        total_bytes);
}

Status check_request(const CollectiveContext& context, const AllToAllV& request) {
  const Result<std::vector<ByteRange>> shares = split_shares(context, request);
  return shares.ok() ? check(context, request, *shares) : shares.status();
}

Status all_to_all_v(const CollectiveContext& context, const AllToAllV& request,
                    const Limits& limits) {
  const Result<std::vector<ByteRange>> shares = split_shares(context, request);
  if (!shares.ok()) return shares.status();
  if (Status wrong = check(context, request, *shares); !wrong.ok()) return wrong;
  const CallSignature call =
      signature_of(request, shares->back().begin_bytes + shares->back().bytes);
  std::vector<CallSignature> incoming(
      shares->size());  // allocated before other ranks depend on this one
  const auto announce_and_compare = [&](CollectiveRunner::Progress& progress) -> Status {
    if (Status sent = announce(context, request, *shares, limits); !sent.ok()) return sent;
    if (Status met = barrier(context.pads, context.channel, limits); !met.ok()) return met;
    progress.outcome = check_same_call(context, request);
    return {};
  };
  const auto work = [&](CollectiveRunner::Progress& progress) -> Status {
    if (progress.outcome.ok()) progress.outcome = plan_output(context, request, incoming);
    return progress.outcome.ok() ? receive(context, request, incoming, limits) : Status();
  };
  return context.runner.run(call, limits.deadline,
                            {announce_and_compare, work, barrier_step(context, limits)});
}

}  // namespace ashlar::symm
