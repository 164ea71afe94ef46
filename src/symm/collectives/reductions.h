// SPDX-License-Identifier: Apache-2.0
//
// Collectives that reduce: all-reduce (one-shot and two-shot), reduce and reduce-scatter.
//
// For any number of ranks. Elements are combined in rank order (symm/collectives/reduce/reduce.h),
// so all ranks get bitwise equal results. When a call returns, it is complete on all ranks, so
// peers' memory can be read. Arguments are checked before any communication. All ranks must make
// the same call with the same arguments except `out`; otherwise all get kInvalidArgument with both
// calls. A call that returned kTimeout can be repeated (collective_runner.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "symm/collectives/collective_context.h"
#include "symm/collectives/reduce/reduce.h"

namespace ashlar::symm {

struct AllReduce {
  SymmetricRange range{};
  int64_t count = 0;  // of elements
  Reduction reduction{};
  // Receives the result and leaves the range unchanged. Must not overlap the range. Null: in place.
  std::byte* out = nullptr;
};

// Every rank reduces all elements. For small sizes.
Status one_shot_all_reduce(const CollectiveContext& context, const AllReduce& request,
                           const Limits& limits);
// Every rank reduces a part, then all collect the parts. For large sizes.
Status two_shot_all_reduce(const CollectiveContext& context, const AllReduce& request,
                           const Limits& limits);
// Reduces through multicast. In place it is two-shot: each rank loads its part combined and stores
// it to all. With an `out` it is one-shot. Without multicast hardware, ranks access each other's
// memory directly, with equal results.
Status multimem_all_reduce(const CollectiveContext& context, const AllReduce& request,
                           const Limits& limits);
// One-shot up to `one_shot_bytes` (thresholds.h), two-shot above.
Status all_reduce(const CollectiveContext& context, const AllReduce& request, size_t one_shot_bytes,
                  const Limits& limits);

// The argument checks that the functions above make before any communication. Reads no memory.
Status check_request(const CollectiveContext& context, const AllReduce& request);
// The signature that ranks exchange; `bytes` is the total size.
CallSignature call_for(CollectiveKind operation, const AllReduce& request, size_t bytes);

struct Reduce {
  SymmetricRange range{};
  int64_t count = 0;  // of elements
  Reduction reduction{};
  int root = 0;
  // Receives the result on the root. Must not overlap the range. REQUIRES: null on other ranks.
  std::byte* out = nullptr;
};

Status reduce_to_root(const CollectiveContext& context, const Reduce& request,
                      const Limits& limits);
// Like reduce_to_root, through multicast: the root loads the combined elements.
Status multimem_reduce(const CollectiveContext& context, const Reduce& request,
                       const Limits& limits);
Status check_request(const CollectiveContext& context, const Reduce& request);
CallSignature call_for(CollectiveKind operation, const Reduce& request, size_t bytes);

struct ReduceScatter {
  SymmetricRange range{};
  int64_t count = 0;  // of elements per rank; the range has world_size times as many
  Reduction reduction{};
  // Receives this rank's part. May be the same part of this rank's range, but must not otherwise
  // overlap the range.
  std::byte* out = nullptr;
};

Status reduce_scatter(const CollectiveContext& context, const ReduceScatter& request,
                      const Limits& limits);
Status check_request(const CollectiveContext& context, const ReduceScatter& request);
CallSignature call_for(const ReduceScatter& request, size_t total_bytes);

// The part size of a two-shot all-reduce. The last parts may be short or empty. Parts are whole
// cache lines, so that no two ranks write to one line.
inline size_t part_bytes(int world_size, size_t total_bytes) {
  constexpr size_t kLineBytes = 64;
  const auto ranks = static_cast<size_t>(world_size);
  const size_t lines = (total_bytes + kLineBytes - 1) / kLineBytes;
  return (lines + ranks - 1) / ranks * kLineBytes;
}

inline ByteRange part_of_rank(int rank, int world_size, size_t total_bytes) {
  const size_t step = part_bytes(world_size, total_bytes);
  const size_t begin = std::min(total_bytes, step * static_cast<size_t>(rank));
  return {.begin_bytes = begin, .bytes = std::min(step, total_bytes - begin)};
}

// The size of the result of any of these requests. REQUIRES: check_request returned ok.
template <typename Request>
size_t reduced_bytes(const Request& request) {
  return static_cast<size_t>(request.count) * element_bytes(request.reduction.type);
}

}  // namespace ashlar::symm
