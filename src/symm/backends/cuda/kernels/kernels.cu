// SPDX-License-Identifier: Apache-2.0
//
// The kernels of symmetric memory by their names. Compiled by nvcc to machine code, or by clang to
// PTX, and carried by the library (cmake/AshlarKernels.cmake); for tests on simulated devices the
// same functions are compiled for the host.
#include "symm/backends/cuda/kernels/copy.h"
#include "symm/backends/cuda/kernels/meet.h"
#include "symm/backends/cuda/kernels/multimem.h"
#include "symm/backends/cuda/kernels/reduce.h"
#include "symm/backends/cuda/kernels/signal.h"

using namespace ashlar::symm;
using namespace ashlar::symm::kernels;

ASHLAR_KERNEL ashlar_symm_signal(const SignalArguments what) { run_signal(what); }
ASHLAR_KERNEL ashlar_symm_meet(const MeetArguments what) { run_meet(what); }
ASHLAR_KERNEL ashlar_symm_copy(const CopyArguments what) { run_copy(what); }
ASHLAR_KERNEL ashlar_symm_store(const StoreArguments what) { run_store(what); }

ASHLAR_KERNEL ashlar_symm_reduce_bits(const ReduceArguments what) { run_reduce_bits(what); }
ASHLAR_KERNEL ashlar_symm_reduce_f32(const ReduceArguments what) { run_reduce<float>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_f16(const ReduceArguments what) { run_reduce<F16>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_bf16(const ReduceArguments what) { run_reduce<Bf16>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_f64(const ReduceArguments what) { run_reduce<double>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_i8(const ReduceArguments what) { run_reduce<int8_t>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_i16(const ReduceArguments what) { run_reduce<int16_t>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_i32(const ReduceArguments what) { run_reduce<int32_t>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_i64(const ReduceArguments what) { run_reduce<int64_t>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_u8(const ReduceArguments what) { run_reduce<uint8_t>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_u16(const ReduceArguments what) { run_reduce<uint16_t>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_u32(const ReduceArguments what) { run_reduce<uint32_t>(what); }
ASHLAR_KERNEL ashlar_symm_reduce_u64(const ReduceArguments what) { run_reduce<uint64_t>(what); }

// Code for GPUs without it has no such kernels, and the library finds out.
#if defined(ASHLAR_HAS_MULTIMEM)
ASHLAR_KERNEL ashlar_symm_multimem_store(const MultimemArguments what) { run_multimem_store(what); }
ASHLAR_KERNEL ashlar_symm_multimem_sum_f32(const MultimemArguments what) {
  run_multimem_sum<float>(what);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_f16(const MultimemArguments what) {
  run_multimem_sum<F16>(what);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_bf16(const MultimemArguments what) {
  run_multimem_sum<Bf16>(what);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_f64(const MultimemArguments what) {
  run_multimem_sum<double>(what);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_u32(const MultimemArguments what) {
  run_multimem_sum<uint32_t>(what);
}
ASHLAR_KERNEL ashlar_symm_multimem_sum_u64(const MultimemArguments what) {
  run_multimem_sum<uint64_t>(what);
}
#endif
