// SPDX-License-Identifier: Apache-2.0
//
// Handles: what all ranks do together. What is wrong with the arguments is found here or in the
// call below, before anybody is told anything.
#include "api/symmetric_parts.h"
#include "api/unwrap.h"
#include "ashlar/symmetric.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {
namespace {

std::byte* out_of(const CollectiveOptions& options) { return static_cast<std::byte*>(options.out); }

// The handle's memory from the offset on; how much of it is needed the collective checks.
template <typename HandleParts>
SymmetricRange range_of(const HandleParts& parts, const CollectiveOptions& options) {
  const int own = parts.group->options.rank;
  const size_t at = unwrap(parts.peers.offset_in_buffer(own, options.offset_bytes, 0));
  return {.bases = parts.buffers,
          .buffer_bytes = parts.peers.end(),
          .offset_bytes = static_cast<int64_t>(at),
          .memory = parts.peers.memory_id(),
          .remote = parts.peers.peers().remote(),
          .remote_begin = parts.peers.peers().buffer_offset()};
}

template <typename HandleParts>
void run(const HandleParts& parts, const Collective& what, const CollectiveOptions& options) {
  unwrap(parts.group->run(what, options.timeout, options.stream, parts.in_flight));
}

template <typename HandleParts>
void reduce_all(const HandleParts& parts, const AllReduce& request, size_t one_shot_bytes,
                const CollectiveOptions& options) {
  run(parts, ThresholdAllReduce{request, one_shot_bytes}, options);
}

}  // namespace

void Handle::all_reduce(int64_t count, Reduction what, const CollectiveOptions& options) const {
  const AllReduce request{range_of(*parts_, options), count, what, out_of(options)};
  reduce_all(*parts_, request, parts_->group->thresholds.one_shot_bytes, options);
}

void Handle::one_shot_all_reduce(int64_t count, Reduction what,
                                 const CollectiveOptions& options) const {
  const AllReduce request{range_of(*parts_, options), count, what, out_of(options)};
  reduce_all(*parts_, request, SIZE_MAX, options);
}

void Handle::two_shot_all_reduce(int64_t count, Reduction what,
                                 const CollectiveOptions& options) const {
  const AllReduce request{range_of(*parts_, options), count, what, out_of(options)};
  reduce_all(*parts_, request, 0, options);
}

void Handle::reduce_scatter(int64_t count, Reduction what, const CollectiveOptions& options) const {
  run(*parts_, ReduceScatter{range_of(*parts_, options), count, what, out_of(options)}, options);
}

namespace {

// That stands for all ranks' pieces.
std::byte* multicast_of(const PeerTable& peers, const SymmetricRange& range) {
  unwrap(check_multicast(peers, "the collective of the same name without multimem"));
  return peers.multicast_buffer() + range.offset_bytes;
}

// Only the root's is looked at.
std::byte* out_at(int root, const Handle& handle, const CollectiveOptions& options) {
  return handle.rank() == root ? out_of(options) : nullptr;
}

void refuse_out(const CollectiveOptions& options) {
  if (options.out == nullptr) return;
  unwrap(
      Status::invalid_argument("all_gather has no out: what it gathers is in the handle's memory"));
}

}  // namespace

void Handle::multimem_all_reduce(int64_t count, Reduction what,
                                 const CollectiveOptions& options) const {
  const AllReduce request{range_of(*parts_, options), count, what, out_of(options)};
  std::byte* const multicast = multicast_of(parts_->peers.peers(), request.range);
  run(*parts_, MultimemAllReduce{request, multicast}, options);
}

void Handle::multimem_reduce(int64_t count, int root, Reduction what,
                             const CollectiveOptions& options) const {
  const Reduce request{range_of(*parts_, options), count, what, root, out_at(root, *this, options)};
  std::byte* const multicast = multicast_of(parts_->peers.peers(), request.range);
  run(*parts_, MultimemReduce{request, multicast}, options);
}

void Handle::reduce(int64_t count, int root, Reduction what,
                    const CollectiveOptions& options) const {
  run(*parts_, Reduce{range_of(*parts_, options), count, what, root, out_at(root, *this, options)},
      options);
}

void Handle::multimem_all_gather(const void* in, int64_t bytes,
                                 const CollectiveOptions& options) const {
  refuse_out(options);
  const AllGather request{range_of(*parts_, options), bytes, static_cast<const std::byte*>(in)};
  std::byte* const multicast = multicast_of(parts_->peers.peers(), request.range);
  run(*parts_, MultimemAllGather{request, multicast}, options);
}

void Handle::all_gather(const void* in, int64_t bytes, const CollectiveOptions& options) const {
  refuse_out(options);
  const auto* from = static_cast<const std::byte*>(in);
  run(*parts_, AllGather{range_of(*parts_, options), bytes, from}, options);
}

void Handle::broadcast(int64_t bytes, int root, const CollectiveOptions& options) const {
  run(*parts_, Broadcast{range_of(*parts_, options), bytes, root, out_of(options)}, options);
}

void Handle::all_to_all(int64_t bytes, const CollectiveOptions& options) const {
  run(*parts_, AllToAll{range_of(*parts_, options), bytes, out_of(options)}, options);
}

void Handle::all_to_all_v(const RowExchange& rows, const CollectiveOptions& options) const {
  const AllToAllV request{range_of(*parts_, options),
                          rows.row_bytes,
                          rows.splits,
                          out_of(options),
                          rows.out_bytes,
                          rows.out_splits,
                          rows.out_offsets};
  run(*parts_, request, options);
}

}  // namespace ashlar::symm
