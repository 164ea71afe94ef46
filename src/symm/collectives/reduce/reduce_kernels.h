// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of a reduction, for several instruction sets.
#pragma once

#include <array>
#include <cstddef>

#include "symm/collectives/reduce/element.h"
#include "symm/collectives/reduce/half.h"

namespace ashlar::symm {

// out[i] = a[i] op b[i]. `out` may equal `a` or `b` but must not partially overlap them.
using CombineRow = void (*)(void* out, const void* a, const void* b, size_t count);

struct ReduceKernels {
  const char* name = "";  // the name of the instruction set
  // Indexed by operation and element type. Null for avg (computed by a sum and a division), for f16
  // and bf16 (combined as f32), and for combinations that check_reducible rejects.
  std::array<std::array<CombineRow, kElementTypeCount>, kReduceOpCount> combine{};
  void (*widen_f16)(float* out, const F16* in, size_t count) = nullptr;
  void (*narrow_f16)(F16* out, const float* in, size_t count) = nullptr;
  void (*widen_bf16)(float* out, const Bf16* in, size_t count) = nullptr;
  void (*narrow_bf16)(Bf16* out, const float* in, size_t count) = nullptr;
  void (*divide_f32)(float* out, const float* in, float divisor, size_t count) = nullptr;
  void (*divide_f64)(double* out, const double* in, double divisor, size_t count) = nullptr;
};

// Returns the kernels for the baseline instruction set of the architecture: SSE2 or NEON.
const ReduceKernels& portable_kernels();
// Returns the fastest kernels that this processor supports.
const ReduceKernels& best_kernels();

}  // namespace ashlar::symm
