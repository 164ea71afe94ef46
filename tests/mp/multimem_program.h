// SPDX-License-Identifier: Apache-2.0
//
// What ranks on devices with multicast do through it, whichever devices they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mp/device_rank.h"

namespace ashlar::symm {

// Collective: reductions to one rank and to elsewhere, and puts to all, at aligned places and at
// others, with and without a stream, the results as they are to be, and nothing written around
// them. What is wrong, or nothing.
std::string run_multimem_program(RankOnDevice& own);
// Parts of it. Collective: `bytes` of every rank at `offset` of everybody's memory, one rank after
// the other.
std::string try_multimem_put(RankOnDevice& own, int64_t offset, size_t bytes,
                             std::optional<StreamId> stream);
// Sums to `out`, of one rank if there is a root, `shift` bytes behind where it is aligned.
struct ToOut {
  std::optional<int> root{};
  int64_t offset = 0;
  size_t shift = 0;
  std::optional<StreamId> stream{};
  Reduction what{ElementType::kI32, ReduceOp::kSum};
};
std::string try_multimem_to_out(RankOnDevice& own, const ToOut& way);

// Of one rank of two or more, rank 1: every argument that makes no sense is refused before anything
// is launched. As above.
std::string make_multimem_mistakes(RankOnDevice& own);

}  // namespace ashlar::symm
