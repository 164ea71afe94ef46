// SPDX-License-Identifier: Apache-2.0
//
// The loops of a reduction: each works on rows of a few KiB, in the instructions that suit the
// processor. reduce.cc puts them together.
#pragma once

#include <array>
#include <cstddef>

#include "symm/collectives/reduce/element.h"
#include "symm/collectives/reduce/half.h"

namespace ashlar::symm {

// out[i] = a[i] op b[i]. `out` may be `a` or `b`, but must not overlap them otherwise.
using CombineRow = void (*)(void* out, const void* a, const void* b, size_t count);

struct Rows {
  const char* name = "";  // of the instructions
  // By operation and type. Null for avg, which is a sum with something after it, for f16 and bf16,
  // which are combined as f32, and for what check_reducible refuses.
  std::array<std::array<CombineRow, kElementTypeCount>, kReduceOpCount> combine{};
  void (*widen_f16)(float* out, const F16* in, size_t count) = nullptr;
  void (*narrow_f16)(F16* out, const float* in, size_t count) = nullptr;
  void (*widen_bf16)(float* out, const Bf16* in, size_t count) = nullptr;
  void (*narrow_bf16)(Bf16* out, const float* in, size_t count) = nullptr;
  void (*divide_f32)(float* out, const float* in, float divisor, size_t count) = nullptr;
  void (*divide_f64)(double* out, const double* in, double divisor, size_t count) = nullptr;
};

// What every processor of this kind can do: SSE2, NEON.
const Rows& plain_rows();
// The best that this one can.
const Rows& best_rows();

}  // namespace ashlar::symm
