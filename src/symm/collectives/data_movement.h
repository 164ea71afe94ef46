// SPDX-License-Identifier: Apache-2.0
//
// Collectives that only move bytes: all-gather, broadcast, and all-to-all with equal and unequal
// shares. The rules of reductions.h apply, except that the error of a mismatched all-to-all-v does
// not describe the other rank's call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "symm/collectives/collective_context.h"

namespace ashlar::symm {

struct AllGather {
  SymmetricRange range{};  // world_size * bytes: receives every rank's share, in rank order
  int64_t bytes = 0;       // the size of each rank's share
  // This rank's share: either its destination in this rank's range, or memory that does not overlap
  // the range.
  const std::byte* in = nullptr;
};
Status all_gather(const CollectiveContext& context, const AllGather& request, const Limits& limits);
// Like all_gather, through multicast: each rank stores its share once. On the host, where there is
// no multicast, each rank stores its share to every rank, as in all_gather.
Status multimem_all_gather(const CollectiveContext& context, const AllGather& request,
                           const Limits& limits);
// The overloads of `check_request` return the error that the collective would return for invalid
// arguments. They do not access memory or communicate.
Status check_request(const CollectiveContext& context, const AllGather& request);

struct Broadcast {
  SymmetricRange range{};
  int64_t bytes = 0;
  int root = 0;
  // Receives the data; must not overlap the range. If null, this rank's range receives the data.
  std::byte* out = nullptr;
};
Status broadcast(const CollectiveContext& context, const Broadcast& request, const Limits& limits);
Status check_request(const CollectiveContext& context, const Broadcast& request);

struct AllToAll {
  SymmetricRange range{};    // world_size * bytes: one share per receiver, in rank order
  int64_t bytes = 0;         // the size of each share
  std::byte* out = nullptr;  // receives world_size * bytes. Must not overlap the range.
};
Status all_to_all(const CollectiveContext& context, const AllToAll& request, const Limits& limits);
Status check_request(const CollectiveContext& context, const AllToAll& request);

struct AllToAllV {
  SymmetricRange range{};  // the shares for all ranks, concatenated
  int64_t row_bytes = 0;
  std::span<const int64_t> splits{};  // the number of rows for each rank
  std::byte* out = nullptr;           // receives the shares from all ranks, concatenated
  int64_t out_bytes = 0;              // capacity of `out`
  // Outputs: the number of rows from each rank, and the row at which they begin in `out`.
  std::span<int64_t> out_splits{};
  std::span<int64_t> out_offsets{};
};
// Splits may differ between ranks. If the incoming rows do not fit `out`, this rank gets
// kInvalidArgument with both sizes, and `out_splits` and `out_offsets` are valid; the other ranks
// succeed.
Status all_to_all_v(const CollectiveContext& context, const AllToAllV& request,
                    const Limits& limits);
Status check_request(const CollectiveContext& context, const AllToAllV& request);

// Returns the share for each rank, relative to this rank's range. Returns kInvalidArgument if the
// splits are invalid.
Result<std::vector<ByteRange>> split_shares(const CollectiveContext& context,
                                            const AllToAllV& request);
// Returns the signature of a call, or that of one share if `total_bytes` is the size of the share.
CallSignature signature_of(const AllToAllV& request, size_t total_bytes);

}  // namespace ashlar::symm
