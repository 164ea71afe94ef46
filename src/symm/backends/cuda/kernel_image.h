// SPDX-License-Identifier: Apache-2.0
//
// The compiled kernels embedded in the library: symm/backends/cuda/kernels/kernels.cu, compiled by
// nvcc or clang at build time.
#pragma once

namespace ashlar::symm {

// Returns a fat binary or zero-terminated PTX, as the CUDA driver loads it. Returns null if no
// compiler was available at build time.
const void* kernel_image();

}  // namespace ashlar::symm
