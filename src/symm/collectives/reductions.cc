// SPDX-License-Identifier: Apache-2.0
//
// Implements all-reduce, reduce and reduce-scatter. Where ranks on other machines need different
// steps, a variant implements them.
#include "symm/collectives/reductions.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/text.h"

namespace ashlar::symm {
namespace {

using Scratch = std::vector<std::byte>;

// The maximum number of bytes that are reduced before they are sent: small enough to stay in the L2
// cache.
constexpr size_t kChunkBytes = size_t{64} * 1024;
// The maximum number of bytes that are read from another machine in one call. Large enough that the
// transfer takes much longer than a round trip.
constexpr size_t kStagedBytes = size_t{512} * 1024;

// Locates the inputs of all ranks, and fetches those on other machines. Constructed before the
// first barrier, so that a rank that runs out of memory fails before the other ranks depend on it.
class RankInputs {
 public:
  // `max_part_bytes` is the size of the largest part.
  RankInputs(const CollectiveContext& context, const SymmetricRange& range, size_t max_part_bytes)
      : range_(range) {
    const auto ranks = static_cast<size_t>(context.world_size());
    if (ranks > inline_.size()) overflow_.resize(ranks);
    all_ = {overflow_.empty() ? inline_.data() : overflow_.data(), ranks};
    if (range.remote == nullptr) return;
    staged_bytes_ = std::min(max_part_bytes, kStagedBytes);
    staged_.resize(staged_bytes_ * ranks);
  }
  RankInputs(const RankInputs&) = delete;
  RankInputs& operator=(const RankInputs&) = delete;

  // Reduces the elements of all ranks in `part` to `out`.
  Status reduce_to(std::byte* out, const Reduction& reduction, ByteRange part, Deadline deadline) {
    if (range_.remote == nullptr) {
      for (size_t rank = 0; rank < all_.size(); ++rank) {
        all_[rank] = range_.address(static_cast<int>(rank)) + part.begin_bytes;
      }
      reduce(reduction, all_, out, part.bytes / element_bytes(reduction.type));
      return {};
    }
    for (size_t done = 0; done < part.bytes; done += staged_bytes_) {
      const ByteRange chunk{.begin_bytes = part.begin_bytes + done,
                            .bytes = std::min(staged_bytes_, part.bytes - done)};
      if (Status found = locate(chunk, deadline); !found.ok()) return found;
      reduce(reduction, all_, out + done, chunk.bytes / element_bytes(reduction.type));
    }
    return {};
  }

 private:
  // Points `all_` to the chunk of every rank. Reads the chunks of ranks on other machines first.
  Status locate(ByteRange chunk, Deadline deadline) {
    for (size_t at = 0; at < all_.size(); ++at) {
      const int rank = static_cast<int>(at);
      if (!range_.is_remote(rank)) {
        all_[at] = range_.address(rank) + chunk.begin_bytes;
        continue;
      }
      std::byte* here = staged_.data() + at * staged_bytes_;
      Status got = range_.read(rank, chunk.begin_bytes, {here, chunk.bytes}, deadline);
      if (!got.ok()) return got;
      all_[at] = here;
    }
    return {};
  }

  const SymmetricRange& range_;
  std::array<const std::byte*, 16> inline_{};  // avoids an allocation for up to 16 ranks
  std::vector<const std::byte*> overflow_;
  std::span<const std::byte*> all_;
  std::vector<std::byte> staged_;  // one chunk per rank; unused for ranks on this machine
  size_t staged_bytes_ = 0;        // per rank: a multiple of every element size, or the whole part
};

// Allocates scratch memory. Runs as the first step, so that a rank that runs out of memory fails
// before the other ranks depend on it.
CollectiveRunner::Step scratch_step(size_t bytes) {
  return [bytes](CollectiveRunner::Progress& progress) -> Status {
    if (progress.scratch.size() < bytes) progress.scratch.resize(bytes);
    return {};
  };
}

// Returns the size of the range in bytes, or an error if the request is invalid.
Result<size_t> check(const CollectiveContext& context, const AllReduce& request) {
  if (Status wrong = check_reducible(request.reduction.type, request.reduction.op); !wrong.ok())
    return wrong;
  const size_t element = element_bytes(request.reduction.type);
  Result<size_t> bytes = checked_bytes("count", request.count, element);
  if (!bytes.ok()) return bytes;
  if (Status wrong = check_range(context, request.range, *bytes, element); !wrong.ok())
    return wrong;
  if (request.out != nullptr) {
    const std::span<const std::byte> own(request.range.address(context.rank()), *bytes);
    Status wrong = check_disjoint("out", request.out, *bytes, element, own);
    if (!wrong.ok()) return wrong;
  }
  return bytes;
}

// Reduces this rank's part in chunks and writes each chunk to all ranks. No other rank accesses
// this part of any rank's range.
Status reduce_and_send(const CollectiveContext& context, RankInputs& inputs,
                       const AllReduce& request, size_t bytes) {
  const ByteRange part = part_of_rank(context.rank(), context.world_size(), bytes);
  for (size_t done = 0; done < part.bytes; done += kChunkBytes) {
    const ByteRange chunk{.begin_bytes = part.begin_bytes + done,
                          .bytes = std::min(kChunkBytes, part.bytes - done)};
    std::byte* own = request.range.address(context.rank()) + chunk.begin_bytes;
    Status reduced = inputs.reduce_to(own, request.reduction, chunk, Deadline::never());
    if (!reduced.ok()) return reduced;
    for (int step = 1; step < context.world_size(); ++step) {
      const int peer = (context.rank() + step) % context.world_size();
      copy_bytes(request.range.address(peer) + chunk.begin_bytes, own, chunk.bytes);
    }
  }
  return {};
}

// Runs a two-shot all-reduce in place with ranks on other machines. Reduces to scratch memory
// first, so that both the reduction and the sending can be repeated after a timeout.
Status run_two_shot_remote(const CollectiveContext& context, RankInputs& inputs,
                           const AllReduce& request, size_t bytes, const CallSignature& call,
                           const Limits& limits) {
  const ByteRange part = part_of_rank(context.rank(), context.world_size(), bytes);
  const auto work = [&](Scratch& scratch) {
    return inputs.reduce_to(scratch.data(), request.reduction, part, limits.deadline);
  };
  const auto send_part = [&](Scratch& scratch) -> Status {
    for (int step = 0; step < context.world_size(); ++step) {
      const int peer = (context.rank() + step) % context.world_size();
      Status sent = request.range.write(peer, part.begin_bytes, {scratch.data(), part.bytes},
                                        limits.deadline);
      if (!sent.ok()) return sent;
    }
    return request.range.flush(limits.deadline);
  };
  return context.runner.run(call, limits.deadline,
                            {scratch_step(part.bytes), announce_step(context, call, limits),
                             work_step(work), work_step(send_part), barrier_step(context, limits)});
}

// Reduces all elements to `out` on the ranks whose `out` is not null.
Status run_to_out(const CollectiveContext& context, const AllReduce& request,
                  const CallSignature& call, const Limits& limits) {
  RankInputs inputs(context, request.range, request.out == nullptr ? 0 : call.bytes);
  const ByteRange whole{.begin_bytes = 0, .bytes = call.bytes};
  const auto work = [&](Scratch&) -> Status {
    if (request.out == nullptr) return {};
    return inputs.reduce_to(request.out, request.reduction, whole, limits.deadline);
  };
  return context.runner.run(
      call, limits.deadline,
      {announce_step(context, call, limits), work_step(work), barrier_step(context, limits)});
}

Status run_one_shot(const CollectiveContext& context, const AllReduce& request, size_t bytes,
                    const Limits& limits) {
  const CallSignature call = signature_of(CollectiveKind::kOneShotAllReduce, request, bytes);
  if (request.out != nullptr) return run_to_out(context, request, call, limits);
  RankInputs inputs(context, request.range, bytes);
  const ByteRange whole{.begin_bytes = 0, .bytes = bytes};
  // Other ranks read this rank's input until the second barrier, so it is overwritten only then.
  // After the third barrier, every rank's memory holds the result.
  const auto work = [&](Scratch& scratch) {
    return inputs.reduce_to(scratch.data(), request.reduction, whole, limits.deadline);
  };
  const auto copy_back = [&](Scratch& scratch) -> Status {
    copy_bytes(request.range.address(context.rank()), scratch.data(), bytes);
    return {};
  };
  return context.runner.run(
      call, limits.deadline,
      {scratch_step(bytes), announce_step(context, call, limits), work_step(work),
       barrier_step(context, limits), work_step(copy_back), barrier_step(context, limits)});
}

Status run_two_shot(const CollectiveContext& context, const AllReduce& request, size_t bytes,
                    const Limits& limits) {
  RankInputs inputs(context, request.range, part_of_rank(0, context.world_size(), bytes).bytes);
  const CallSignature call = signature_of(CollectiveKind::kTwoShotAllReduce, request, bytes);
  if (request.out == nullptr && request.range.remote != nullptr) {
    return run_two_shot_remote(context, inputs, request, bytes, call, limits);
  }
  if (request.out == nullptr) {
    const auto work = [&](Scratch&) { return reduce_and_send(context, inputs, request, bytes); };
    return context.runner.run(
        call, limits.deadline,
        {announce_step(context, call, limits), work_step(work), barrier_step(context, limits)});
  }
  // This rank's part of the input temporarily holds the result for the other ranks, and is restored
  // at the end.
  const ByteRange part = part_of_rank(context.rank(), context.world_size(), bytes);
  std::byte* own = request.range.address(context.rank()) + part.begin_bytes;
  const bool is_remote = request.range.remote != nullptr;
  const auto work = [&](Scratch& scratch) -> Status {
    std::byte* result = is_remote ? scratch.data() + part.bytes : own;
    if (!is_remote) copy_bytes(scratch.data(), own, part.bytes);
    Status reduced = inputs.reduce_to(result, request.reduction, part, limits.deadline);
    if (!reduced.ok() || !is_remote) return reduced;
    copy_bytes(scratch.data(), own, part.bytes);
    copy_bytes(own, result, part.bytes);
    return {};
  };
  const auto collect = [&](Scratch&) -> Status {
    for (int step = 0; step < context.world_size(); ++step) {
      const int peer = (context.rank() + step) % context.world_size();
      const ByteRange peer_part = part_of_rank(peer, context.world_size(), bytes);
      std::byte* to = request.out + peer_part.begin_bytes;
      Status got =
          request.range.read(peer, peer_part.begin_bytes, {to, peer_part.bytes}, limits.deadline);
      if (!got.ok()) return got;
    }
    return {};
  };
  const auto restore = [&](Scratch& scratch) -> Status {
    copy_bytes(own, scratch.data(), part.bytes);
    return {};
  };
  return context.runner.run(
      call, limits.deadline,
      {scratch_step(is_remote ? 2 * part.bytes : part.bytes), announce_step(context, call, limits),
       work_step(work), barrier_step(context, limits), work_step(collect),
       barrier_step(context, limits), work_step(restore), barrier_step(context, limits)});
}

AllReduce as_all_reduce(const Reduce& request) {
  return {request.range, request.count, request.reduction, request.out};
}

Result<size_t> check(const CollectiveContext& context, const Reduce& request) {
  if (Status wrong = context.pads.slots().check_rank(request.root); !wrong.ok()) {
    return Status::invalid_argument(text("root: ", wrong.message()));
  }
  const Result<size_t> bytes = check(context, as_all_reduce(request));
  if (!bytes.ok() || *bytes == 0 || context.rank() != request.root) return bytes;
  if (request.out == nullptr)
    return Status::invalid_argument("out is null, and this rank is the root");
  return bytes;
}

Status run_to_root(const CollectiveContext& context, const Reduce& request,
                   CollectiveKind operation, const Limits& limits) {
  const Result<size_t> bytes = check(context, request);
  if (!bytes.ok()) return bytes.status();
  return run_to_out(context, as_all_reduce(request), signature_of(operation, request, *bytes),
                    limits);
}

// Returns the size of all parts in bytes, or an error if the request is invalid.
Result<size_t> check_scatter(const CollectiveContext& context, const ReduceScatter& request) {
  if (Status wrong = check_reducible(request.reduction.type, request.reduction.op); !wrong.ok())
    return wrong;
  const size_t element = element_bytes(request.reduction.type);
  const auto ranks = static_cast<uint64_t>(context.world_size());
  const Result<size_t> total = checked_bytes("count", request.count, element * ranks);
  if (!total.ok()) return total.status();
  if (Status wrong = check_range(context, request.range, *total, element); !wrong.ok())
    return wrong;
  const size_t bytes = *total / ranks;
  const std::byte* own = request.range.address(context.rank());
  if (request.out != own + bytes * static_cast<size_t>(context.rank())) {
    Status wrong = check_disjoint("out", request.out, bytes, element, {own, *total});
    if (!wrong.ok()) return wrong;
  }
  return *total;
}

}  // namespace

CallSignature signature_of(CollectiveKind operation, const AllReduce& request, size_t bytes) {
  const int is_out_of_place = request.out == nullptr ? 0 : 1;
  return make_signature(
      request.range, CallSignature::encode(operation, request.reduction, is_out_of_place), bytes);
}

CallSignature signature_of(CollectiveKind operation, const Reduce& request, size_t bytes) {
  return make_signature(request.range,
                        CallSignature::encode(operation, request.reduction, request.root), bytes);
}

CallSignature signature_of(const ReduceScatter& request, size_t total_bytes) {
  return make_signature(request.range,
                        CallSignature::encode(CollectiveKind::kReduceScatter, request.reduction),
                        total_bytes);
}

Status check_request(const CollectiveContext& context, const AllReduce& request) {
  return check(context, request).status();
}

Status check_request(const CollectiveContext& context, const Reduce& request) {
  return check(context, request).status();
}

Status check_request(const CollectiveContext& context, const ReduceScatter& request) {
  return check_scatter(context, request).status();
}

Status one_shot_all_reduce(const CollectiveContext& context, const AllReduce& request,
                           const Limits& limits) {
  const Result<size_t> bytes = check(context, request);
  return bytes.ok() ? run_one_shot(context, request, *bytes, limits) : bytes.status();
}

Status two_shot_all_reduce(const CollectiveContext& context, const AllReduce& request,
                           const Limits& limits) {
  const Result<size_t> bytes = check(context, request);
  return bytes.ok() ? run_two_shot(context, request, *bytes, limits) : bytes.status();
}

Status multimem_all_reduce(const CollectiveContext& context, const AllReduce& request,
                           const Limits& limits) {
  const Result<size_t> bytes = check(context, request);
  if (!bytes.ok()) return bytes.status();
  const CallSignature call = signature_of(CollectiveKind::kMultimemAllReduce, request, *bytes);
  if (request.out != nullptr) return run_to_out(context, request, call, limits);
  RankInputs inputs(context, request.range, part_of_rank(0, context.world_size(), *bytes).bytes);
  const auto work = [&](Scratch&) { return reduce_and_send(context, inputs, request, *bytes); };
  return context.runner.run(
      call, limits.deadline,
      {announce_step(context, call, limits), work_step(work), barrier_step(context, limits)});
}

Status all_reduce(const CollectiveContext& context, const AllReduce& request, size_t one_shot_bytes,
                  const Limits& limits) {
  const Result<size_t> bytes = check(context, request);
  if (!bytes.ok()) return bytes.status();
  return *bytes <= one_shot_bytes ? run_one_shot(context, request, *bytes, limits)
                                  : run_two_shot(context, request, *bytes, limits);
}

Status reduce_to_root(const CollectiveContext& context, const Reduce& request,
                      const Limits& limits) {
  return run_to_root(context, request, CollectiveKind::kReduce, limits);
}

Status multimem_reduce(const CollectiveContext& context, const Reduce& request,
                       const Limits& limits) {
  return run_to_root(context, request, CollectiveKind::kMultimemReduce, limits);
}

Status reduce_scatter(const CollectiveContext& context, const ReduceScatter& request,
                      const Limits& limits) {
  const Result<size_t> total = check_scatter(context, request);
  if (!total.ok()) return total.status();
  const size_t bytes = *total / static_cast<uint64_t>(context.world_size());
  const ByteRange part{.begin_bytes = bytes * static_cast<size_t>(context.rank()), .bytes = bytes};
  const CallSignature call = signature_of(request, *total);
  RankInputs inputs(context, request.range, bytes);
  // The reduction may time out and be repeated if it reads from other machines, so the input must
  // stay unchanged until it is complete.
  const bool is_remote = request.range.remote != nullptr;
  const auto work = [&](Scratch& scratch) -> Status {
    std::byte* result = is_remote ? scratch.data() : request.out;
    Status reduced = inputs.reduce_to(result, request.reduction, part, limits.deadline);
    if (reduced.ok()) copy_bytes(request.out, result, bytes);
    return reduced;
  };
  return context.runner.run(
      call, limits.deadline,
      {scratch_step(is_remote ? bytes : 0), announce_step(context, call, limits), work_step(work),
       barrier_step(context, limits)});
}

}  // namespace ashlar::symm
