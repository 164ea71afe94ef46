// SPDX-License-Identifier: Apache-2.0
//
// Implements all-gather, broadcast and all-to-all. all_to_all_v.cc implements unequal shares.
#include "symm/collectives/data_movement.h"

#include "base/text.h"

namespace ashlar::symm {
namespace {

using Scratch = std::vector<std::byte>;

// Calls `transfer(peer)` for every rank, starting with this rank, so that the ranks do not all
// access the same peer at the same time.
template <typename Transfer>
Status for_each_peer(const CollectiveContext& context, const Transfer& transfer) {
  for (int step = 0; step < context.world_size(); ++step) {
    const int peer = (context.rank() + step) % context.world_size();
    if (Status done = transfer(peer); !done.ok()) return done;
  }
  return {};
}

// Returns the number of bytes of the range that the request uses, or an error if the request is
// invalid.
Result<size_t> check(const CollectiveContext& context, const AllGather& request) {
  const auto ranks = static_cast<uint64_t>(context.world_size());
  const Result<size_t> total = checked_bytes("bytes", request.bytes, ranks);
  if (!total.ok()) return total.status();
  if (Status wrong = check_range(context, request.range, *total, 1); !wrong.ok()) return wrong;
  const size_t bytes = *total / ranks;
  const std::byte* own = request.range.address(context.rank());
  if (request.in != own + bytes * static_cast<size_t>(context.rank())) {
    Status wrong = check_disjoint("in", request.in, bytes, 1, {own, *total});
    if (!wrong.ok()) return wrong;
  }
  return *total;
}

Result<size_t> check(const CollectiveContext& context, const Broadcast& request) {
  const Result<size_t> bytes = checked_bytes("bytes", request.bytes, 1);
  if (!bytes.ok()) return bytes.status();
  if (Status wrong = check_range(context, request.range, *bytes, 1); !wrong.ok()) return wrong;
  if (Status wrong = context.pads.slots().check_rank(request.root); !wrong.ok()) {
    return Status::invalid_argument(text("root: ", wrong.message()));
  }
  if (request.out != nullptr) {
    const std::byte* own = request.range.address(context.rank());
    Status wrong = check_disjoint("out", request.out, *bytes, 1, {own, *bytes});
    if (!wrong.ok()) return wrong;
  }
  return *bytes;
}

Result<size_t> check(const CollectiveContext& context, const AllToAll& request) {
  const auto ranks = static_cast<uint64_t>(context.world_size());
  const Result<size_t> total = checked_bytes("bytes", request.bytes, ranks);
  if (!total.ok()) return total.status();
  if (Status wrong = check_range(context, request.range, *total, 1); !wrong.ok()) return wrong;
  const std::span<const std::byte> own(request.range.address(context.rank()), *total);
  if (Status wrong = check_disjoint("out", request.out, *total, 1, own); !wrong.ok()) return wrong;
  return *total;
}

Status gather(CollectiveKind operation, const CollectiveContext& context, const AllGather& request,
              const Limits& limits) {
  const Result<size_t> total = check(context, request);
  if (!total.ok()) return total.status();
  const size_t bytes = *total / static_cast<uint64_t>(context.world_size());
  const size_t begin = bytes * static_cast<size_t>(context.rank());
  const CallSignature call = make_signature(request.range, CallSignature::encode(operation), bytes);
  const auto work = [&](Scratch&) -> Status {
    const Status sent = for_each_peer(context, [&](int peer) {
      return request.range.write(peer, begin, {request.in, bytes}, limits.deadline);
    });
    return sent.ok() ? request.range.flush(limits.deadline) : sent;
  };
  return context.runner.run(
      call, limits.deadline,
      {announce_step(context, call, limits), work_step(work), barrier_step(context, limits)});
}

}  // namespace

Status check_request(const CollectiveContext& context, const AllGather& request) {
  return check(context, request).status();
}
Status check_request(const CollectiveContext& context, const Broadcast& request) {
  return check(context, request).status();
}
Status check_request(const CollectiveContext& context, const AllToAll& request) {
  return check(context, request).status();
}

Status all_gather(const CollectiveContext& context, const AllGather& request,
                  const Limits& limits) {
  return gather(CollectiveKind::kAllGather, context, request, limits);
}

Status multimem_all_gather(const CollectiveContext& context, const AllGather& request,
                           const Limits& limits) {
  return gather(CollectiveKind::kMultimemAllGather, context, request, limits);
}

Status broadcast(const CollectiveContext& context, const Broadcast& request, const Limits& limits) {
  const Result<size_t> bytes = check(context, request);
  if (!bytes.ok()) return bytes.status();
  const CallSignature call = make_signature(
      request.range, CallSignature::encode(CollectiveKind::kBroadcast, {}, request.root), *bytes);
  const auto work = [&](Scratch&) {
    std::byte* to = request.out == nullptr ? request.range.address(context.rank()) : request.out;
    return request.range.read(request.root, 0, {to, *bytes}, limits.deadline);
  };
  return context.runner.run(
      call, limits.deadline,
      {announce_step(context, call, limits), work_step(work), barrier_step(context, limits)});
}

Status all_to_all(const CollectiveContext& context, const AllToAll& request, const Limits& limits) {
  const Result<size_t> total = check(context, request);
  if (!total.ok()) return total.status();
  const size_t bytes = *total / static_cast<uint64_t>(context.world_size());
  const size_t begin = bytes * static_cast<size_t>(context.rank());
  const CallSignature call =
      make_signature(request.range, CallSignature::encode(CollectiveKind::kAllToAll), bytes);
  const auto work = [&](Scratch&) {
    return for_each_peer(context, [&](int peer) {
      std::byte* to = request.out + bytes * static_cast<size_t>(peer);
      return request.range.read(peer, begin, {to, bytes}, limits.deadline);
    });
  };
  return context.runner.run(
      call, limits.deadline,
      {announce_step(context, call, limits), work_step(work), barrier_step(context, limits)});
}

}  // namespace ashlar::symm
