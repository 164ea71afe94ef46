// SPDX-License-Identifier: Apache-2.0
//
// Collectives that compute: all-reduce in one step or two, reduce and reduce-scatter.
//
// Any number of ranks. Elements are combined in rank order (symm/collectives/reduce/reduce.h), so
// all ranks get the same bits. Once a call has returned, what it does is done on all ranks: also a
// peer's memory can be read. Arguments are checked before anybody is told anything. Every rank must
// call the same with the same arguments, `out` excepted; if not, all get kInvalidArgument with what
// was called. A call that ended with kTimeout can be made again (order_guard.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "symm/collectives/reduce/reduce.h"
#include "symm/collectives/team.h"

namespace ashlar::symm {

struct AllReduce {
  Piece piece{};
  int64_t count = 0;  // of elements
  Reduction what{};
  // Where the result goes: nowhere in the piece, and the piece is as before afterwards. Null: in
  // place.
  std::byte* out = nullptr;
};

// Each rank reduces everything: one step, W times the reading. For what is small.
Status one_shot_all_reduce(const Team& team, const AllReduce& request, const Limits& limits);
// Each rank reduces a part and all collect the parts. For what is large.
Status two_shot_all_reduce(const Team& team, const AllReduce& request, const Limits& limits);
// Through multicast, the second if it is in place: each rank's part is loaded combined and stored
// to all. With an `out` the first: each loads all of it. Without hardware a rank reaches all others
// by itself, with the same bits.
Status multimem_all_reduce(const Team& team, const AllReduce& request, const Limits& limits);
// One of the first two: the one-shot up to `one_shot_bytes` (thresholds.h).
Status all_reduce(const Team& team, const AllReduce& request, size_t one_shot_bytes,
                  const Limits& limits);

// What a call would be refused for, before anybody is told anything; reads no memory. Each of the
// functions here checks this itself.
Status check_request(const Team& team, const AllReduce& request);
// What a rank tells the others that it calls, and of how many bytes in all.
Call call_for(Operation operation, const AllReduce& request, size_t bytes);

struct Reduce {
  Piece piece{};
  int64_t count = 0;  // of elements
  Reduction what{};
  int root = 0;
  // Where the root wants it: nowhere in its piece. REQUIRES: null on the other ranks.
  std::byte* out = nullptr;
};

Status reduce_to_root(const Team& team, const Reduce& request, const Limits& limits);
// The same through multicast: the root loads all of it combined.
Status multimem_reduce(const Team& team, const Reduce& request, const Limits& limits);
Status check_request(const Team& team, const Reduce& request);
Call call_for(Operation operation, const Reduce& request, size_t bytes);

struct ReduceScatter {
  Piece piece{};
  int64_t count = 0;  // of elements that each rank gets; the piece has W times as many
  Reduction what{};
  // This rank's part of the result. May be its own part of its own piece, but nothing else there.
  std::byte* out = nullptr;
};

Status reduce_scatter(const Team& team, const ReduceScatter& request, const Limits& limits);
Status check_request(const Team& team, const ReduceScatter& request);
Call call_for(const ReduceScatter& request, size_t total_bytes);

// Of the result, of any of these. REQUIRES: checked.
template <typename Request>
size_t reduced_bytes(const Request& request) {
  return static_cast<size_t>(request.count) * element_bytes(request.what.type);
}

}  // namespace ashlar::symm
