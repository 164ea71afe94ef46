// SPDX-License-Identifier: Apache-2.0
//
// The entry points of the kernels. cmake/AshlarKernels.cmake compiles them with nvcc (to machine
// code, and to PTX for later GPUs) or else with clang (to PTX only), and the library embeds the
// result. For tests, the same functions are compiled for the host.
#include "symm/backends/cuda/kernels/barrier.h"
#include "symm/backends/cuda/kernels/copy.h"
#include "symm/backends/cuda/kernels/experts.h"
#include "symm/backends/cuda/kernels/multimem.h"
#include "symm/backends/cuda/kernels/reduce.h"
#include "symm/backends/cuda/kernels/signal.h"

using namespace ashlar::symm;
using namespace ashlar::symm::kernels;

ASHLAR_KERNEL ashlar_symm_signal(const SignalArguments args) { run_signal(args); }
ASHLAR_KERNEL ashlar_symm_barrier(const BarrierArguments args) { run_barrier(args); }
ASHLAR_KERNEL ashlar_symm_copy(const CopyArguments args) { run_copy(args); }
ASHLAR_KERNEL ashlar_symm_store(const StoreArguments args) { run_store(args); }
ASHLAR_KERNEL ashlar_symm_copy_pieces(const PieceArguments args) { run_copy_pieces(args); }
ASHLAR_KERNEL ashlar_symm_plan_slices(const ExpertArguments args) { run_plan_slices(args); }
ASHLAR_KERNEL ashlar_symm_copy_slices(const ExpertArguments args) { run_copy_slices(args); }

ASHLAR_KERNEL ashlar_symm_reduce_bits(const ReduceArguments args) { run_reduce_bits(args); }
ASHLAR_KERNEL ashlar_symm_reduce_f32(const ReduceArguments args) { run_reduce<float>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_f16(const ReduceArguments args) { run_reduce<F16>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_bf16(const ReduceArguments args) { run_reduce<Bf16>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_f64(const ReduceArguments args) { run_reduce<double>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_i8(const ReduceArguments args) { run_reduce<int8_t>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_i16(const ReduceArguments args) { run_reduce<int16_t>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_i32(const ReduceArguments args) { run_reduce<int32_t>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_i64(const ReduceArguments args) { run_reduce<int64_t>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_u8(const ReduceArguments args) { run_reduce<uint8_t>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_u16(const ReduceArguments args) { run_reduce<uint16_t>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_u32(const ReduceArguments args) { run_reduce<uint32_t>(args); }
ASHLAR_KERNEL ashlar_symm_reduce_u64(const ReduceArguments args) { run_reduce<uint64_t>(args); }

// These kernels are not in images for GPUs without multicast. The library finds out which kernels
// an image has when it loads the image.
#if defined(ASHLAR_HAS_MULTIMEM)
ASHLAR_KERNEL ashlar_symm_multimem_store(const MultimemArguments args) { run_multimem_store(args); }
ASHLAR_KERNEL ashlar_symm_multimem_sum_f32(const MultimemArguments args) {
  run_multimem_sum<float>(args);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_f16(const MultimemArguments args) {
  run_multimem_sum<F16>(args);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_bf16(const MultimemArguments args) {
  run_multimem_sum<Bf16>(args);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_f64(const MultimemArguments args) {
  run_multimem_sum<double>(args);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_u32(const MultimemArguments args) {
  run_multimem_sum<uint32_t>(args);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_u64(const MultimemArguments args) {
  run_multimem_sum<uint64_t>(args);
}
#endif
