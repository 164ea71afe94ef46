// SPDX-License-Identifier: Apache-2.0
//
// Collectives that reduce: all-reduce (one-shot and two-shot), reduce and reduce-scatter.
//
// All support any number of ranks. Elements are combined in rank order
// (symm/collectives/reduce/reduce.h), so all ranks get bitwise equal results. When a call has
// succeeded, it is complete on all ranks, so peers' memory can be read. Arguments are checked
// before any communication. All ranks must make the same call with the same arguments except `in`
// and `out`; the `out` of an all-reduce must be null on all ranks or on none. If two ranks' calls
// differ, all ranks get kInvalidArgument with a message that shows both calls. A call that returned
// kTimeout can be repeated (collective_runner.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "symm/collectives/collective_context.h"
#include "symm/collectives/reduce/reduce.h"

namespace ashlar::symm {

struct AllReduce {
  SymmetricRange range{};
  int64_t count = 0;  // the number of elements
  Reduction reduction{};
  // Receives the result; the range is unchanged after the call. Must not overlap the range. If
  // null, the result replaces the elements in the range.
  std::byte* out = nullptr;
};

// Every rank reduces all elements. Faster than two_shot_all_reduce for small sizes.
Status one_shot_all_reduce(const CollectiveContext& context, const AllReduce& request,
                           const Limits& limits);
// Every rank reduces a part of the elements, and then all ranks collect the parts. Faster than
// one_shot_all_reduce for large sizes.
Status two_shot_all_reduce(const CollectiveContext& context, const AllReduce& request,
                           const Limits& limits);
// All-reduce through multicast. In place it is two-shot: each rank loads the reduced values of its
// part and stores them to all ranks. With an `out` it is one-shot. On the host, where there is no
// multicast, ranks access each other's memory directly.
Status multimem_all_reduce(const CollectiveContext& context, const AllReduce& request,
                           const Limits& limits);
// Uses the one-shot algorithm up to `one_shot_bytes` (thresholds.h), and the two-shot algorithm for
// larger requests.
Status all_reduce(const CollectiveContext& context, const AllReduce& request, size_t one_shot_bytes,
                  const Limits& limits);

// Performs the argument checks that the functions above make before any communication. Reads no
// memory.
Status check_request(const CollectiveContext& context, const AllReduce& request);
// Returns the signature that ranks exchange. `bytes` is the total size.
CallSignature signature_of(CollectiveKind operation, const AllReduce& request, size_t bytes);

struct Reduce {
  SymmetricRange range{};
  int64_t count = 0;  // the number of elements
  Reduction reduction{};
  int root = 0;
  // Receives the result on the root. Must not overlap the range. REQUIRES: null on other ranks.
  std::byte* out = nullptr;
};

Status reduce_to_root(const CollectiveContext& context, const Reduce& request,
                      const Limits& limits);
// Like reduce_to_root, through multicast: the root loads the reduced values. On the host, where
// there is no multicast, the root reads every rank's memory, as in reduce_to_root.
Status multimem_reduce(const CollectiveContext& context, const Reduce& request,
                       const Limits& limits);
Status check_request(const CollectiveContext& context, const Reduce& request);
CallSignature signature_of(CollectiveKind operation, const Reduce& request, size_t bytes);

struct ReduceScatter {
  SymmetricRange range{};
  int64_t count = 0;  // elements per rank; the range has world_size times as many
  Reduction reduction{};
  // Receives this rank's part: either the same part of this rank's range, or memory that does not
  // overlap the range.
  std::byte* out = nullptr;
};

Status reduce_scatter(const CollectiveContext& context, const ReduceScatter& request,
                      const Limits& limits);
Status check_request(const CollectiveContext& context, const ReduceScatter& request);
CallSignature signature_of(const ReduceScatter& request, size_t total_bytes);

// Returns the size of the parts of a two-shot all-reduce, except for the last parts, which may be
// shorter or empty. It is a multiple of a cache line, so that no two ranks write to one line of a
// range that is aligned to lines.
inline size_t part_bytes(int world_size, size_t total_bytes) {
  constexpr size_t kLineBytes = 64;
  const auto ranks = static_cast<size_t>(world_size);
  const size_t lines = (total_bytes + kLineBytes - 1) / kLineBytes;
  return (lines + ranks - 1) / ranks * kLineBytes;
}

// Returns the part of a two-shot all-reduce that `rank` reduces.
inline ByteRange part_of_rank(int rank, int world_size, size_t total_bytes) {
  const size_t step = part_bytes(world_size, total_bytes);
  const size_t begin = std::min(total_bytes, step * static_cast<size_t>(rank));
  return {.begin_bytes = begin, .bytes = std::min(step, total_bytes - begin)};
}

// Returns the size of the result of a request, in bytes. `Request` is any of the types above.
// REQUIRES: check_request returned ok.
template <typename Request>
size_t reduced_bytes(const Request& request) {
  return static_cast<size_t>(request.count) * element_bytes(request.reduction.type);
}

}  // namespace ashlar::symm
