// SPDX-License-Identifier: Apache-2.0
//
// The kernels of symmetric memory as the library carries them: what nvcc or clang made of
// symm/backends/cuda/kernels/kernels.cu when this was built.
#pragma once

namespace ashlar::symm {

// What a CUDA driver loads: a fat binary, or the text of PTX with a zero at its end. Null: where
// this was built there was no compiler for it.
const void* kernel_image();

}  // namespace ashlar::symm
