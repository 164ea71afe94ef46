// SPDX-License-Identifier: Apache-2.0
//
// Implements the collectives of handles. Arguments are checked here or by the callee, before any
// other rank is involved.
#include <algorithm>

#include "api/symmetric_impl.h"
#include "api/unwrap.h"
#include "ashlar/symmetric.h"
#include "base/text.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {
namespace {

std::byte* out_pointer(const CollectiveOptions& options) {
  return static_cast<std::byte*>(options.out);
}

// Returns the handle's memory from the offset on. The collective checks that it is large enough.
template <typename HandleImpl>
SymmetricRange symmetric_range(const HandleImpl& impl, const CollectiveOptions& options) {
  const int own_rank = impl.group->options.rank;
  const size_t buffer_offset =
      unwrap(impl.peers.offset_in_buffer(own_rank, options.offset_bytes, 0));
  return {.bases = impl.buffers,
          .buffer_bytes = impl.peers.end(),
          .offset_bytes = static_cast<int64_t>(buffer_offset),
          .memory = impl.peers.memory_id(),
          .remote = impl.peers.peers().remote(),
          .remote_begin = impl.peers.peers().buffer_offset()};
}

template <typename HandleImpl>
void run(const HandleImpl& impl, const Collective& collective, const CollectiveOptions& options) {
  unwrap(impl.group->run(collective, options.timeout, options.stream, impl.in_flight));
}

template <typename HandleImpl>
void reduce_all(const HandleImpl& impl, const AllReduce& request, size_t one_shot_bytes,
                const CollectiveOptions& options) {
  run(impl, ThresholdAllReduce{request, one_shot_bytes}, options);
}

}  // namespace

void Handle::all_reduce(int64_t count, Reduction reduction,
                        const CollectiveOptions& options) const {
  const AllReduce request{symmetric_range(*impl_, options), count, reduction, out_pointer(options)};
  reduce_all(*impl_, request, impl_->group->thresholds.one_shot_bytes, options);
}

void Handle::one_shot_all_reduce(int64_t count, Reduction reduction,
                                 const CollectiveOptions& options) const {
  const AllReduce request{symmetric_range(*impl_, options), count, reduction, out_pointer(options)};
  reduce_all(*impl_, request, SIZE_MAX, options);
}

void Handle::two_shot_all_reduce(int64_t count, Reduction reduction,
                                 const CollectiveOptions& options) const {
  const AllReduce request{symmetric_range(*impl_, options), count, reduction, out_pointer(options)};
  reduce_all(*impl_, request, 0, options);
}

void Handle::reduce_scatter(int64_t count, Reduction reduction,
                            const CollectiveOptions& options) const {
  run(*impl_,
      ReduceScatter{symmetric_range(*impl_, options), count, reduction, out_pointer(options)},
      options);
}

namespace {

// Returns the multicast address of all ranks' ranges.
std::byte* multicast_address(const PeerTable& peers, const SymmetricRange& range) {
  unwrap(check_multicast(peers, "the collective of the same name without multimem"));
  return peers.multicast_buffer() + range.offset_bytes;
}

// Returns null on ranks other than the root, which ignore `out`.
std::byte* root_out(int root, const Handle& handle, const CollectiveOptions& options) {
  return handle.rank() == root ? out_pointer(options) : nullptr;
}

void check_no_out(const CollectiveOptions& options) {
  if (options.out == nullptr) return;
  unwrap(Status::invalid_argument("all_gather takes no out: the result is in the handle's memory"));
}

}  // namespace

void Handle::multimem_all_reduce(int64_t count, Reduction reduction,
                                 const CollectiveOptions& options) const {
  const AllReduce request{symmetric_range(*impl_, options), count, reduction, out_pointer(options)};
  std::byte* const multicast = multicast_address(impl_->peers.peers(), request.range);
  run(*impl_, MultimemAllReduce{request, multicast}, options);
}

void Handle::multimem_reduce(int64_t count, int root, Reduction reduction,
                             const CollectiveOptions& options) const {
  const Reduce request{symmetric_range(*impl_, options), count, reduction, root,
                       root_out(root, *this, options)};
  std::byte* const multicast = multicast_address(impl_->peers.peers(), request.range);
  run(*impl_, MultimemReduce{request, multicast}, options);
}

void Handle::reduce(int64_t count, int root, Reduction reduction,
                    const CollectiveOptions& options) const {
  run(*impl_,
      Reduce{symmetric_range(*impl_, options), count, reduction, root,
             root_out(root, *this, options)},
      options);
}

void Handle::multimem_all_gather(const void* in, int64_t bytes,
                                 const CollectiveOptions& options) const {
  check_no_out(options);
  const AllGather request{symmetric_range(*impl_, options), bytes,
                          static_cast<const std::byte*>(in)};
  std::byte* const multicast = multicast_address(impl_->peers.peers(), request.range);
  run(*impl_, MultimemAllGather{request, multicast}, options);
}

void Handle::all_gather(const void* in, int64_t bytes, const CollectiveOptions& options) const {
  check_no_out(options);
  const auto* from = static_cast<const std::byte*>(in);
  run(*impl_, AllGather{symmetric_range(*impl_, options), bytes, from}, options);
}

void Handle::broadcast(int64_t bytes, int root, const CollectiveOptions& options) const {
  run(*impl_, Broadcast{symmetric_range(*impl_, options), bytes, root, out_pointer(options)},
      options);
}

void Handle::all_to_all(int64_t bytes, const CollectiveOptions& options) const {
  run(*impl_, AllToAll{symmetric_range(*impl_, options), bytes, out_pointer(options)}, options);
}

void Handle::all_to_all_v(const RowExchange& rows, const CollectiveOptions& options) const {
  const AllToAllV request{symmetric_range(*impl_, options),
                          rows.row_bytes,
                          rows.splits,
                          out_pointer(options),
                          rows.out_bytes,
                          rows.out_splits,
                          rows.out_offsets};
  run(*impl_, request, options);
}

namespace {

// `splits_offset_bytes` is relative to the handle's offset.
template <typename HandleImpl>
void exchange(const HandleImpl& impl, SliceOrder order, const ExpertExchange& rows,
              int64_t splits_offset_bytes, const CollectiveOptions& options) {
  const auto slices = static_cast<uint64_t>(impl.group->options.world_size) *
                      static_cast<uint64_t>(std::max<int64_t>(rows.experts_per_rank, 0));
  const bool has_offsets = !rows.offsets.empty();
  for (const auto& [name, size] : {std::pair("splits", rows.splits.size()),
                                   {"offsets", has_offsets ? rows.offsets.size() : slices},
                                   {"out_splits", rows.out_splits.size()},
                                   {"out_offsets", rows.out_offsets.size()}}) {
    if (size == slices) continue;
    unwrap(Status::invalid_argument(
        text(name, " has ", size, " elements: expected ", slices, ", one per rank and expert")));
  }
  if (has_offsets && rows.offsets.data() != rows.splits.data() + rows.splits.size()) {
    unwrap(Status::invalid_argument("offsets must begin where splits end"));
  }
  ExpertAllToAll request{.range = symmetric_range(impl, options),
                         .order = order,
                         .row_bytes = rows.row_bytes,
                         .experts_per_rank = rows.experts_per_rank,
                         .alignment_rows = rows.alignment_rows};
  request.splits_offset_bytes = static_cast<int64_t>(
      unwrap(impl.peers.offset_in_buffer(impl.group->options.rank, splits_offset_bytes, 0)));
  request.has_offsets = has_offsets;
  request.out = out_pointer(options);
  request.out_bytes = rows.out_bytes;
  request.out_splits = rows.out_splits.data();
  request.out_offsets = rows.out_offsets.data();
  run(impl, request, options);
}

}  // namespace

void Handle::dispatch(const ExpertExchange& rows, const CollectiveOptions& options) const {
  exchange(*impl_, SliceOrder::kByRank, rows, offset_of(rows.splits.data()), options);
}

void Handle::combine(const ExpertExchange& rows, const CollectiveOptions& options) const {
  exchange(*impl_, SliceOrder::kByExpert, rows, offset_of(rows.splits.data()), options);
}

}  // namespace ashlar::symm
