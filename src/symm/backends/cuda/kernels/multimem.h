// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores on multicast addresses: a load returns the sum over all ranks, and a store
// reaches all ranks. For GPUs of compute capability 9.0 and later (ASHLAR_HAS_MULTIMEM), the
// NVSwitch performs them, and adds in an unspecified order. On the host, for tests, these functions
// access every rank's memory.
//
// Works on 16 bytes at a time. Other kernels handle the remainder.
#pragma once

#include "symm/backends/cuda/kernels/barrier.h"
#include "symm/backends/cuda/kernels/reduce.h"

#if !defined(__CUDACC__) && !defined(__CUDA__)
#define ASHLAR_HAS_MULTIMEM
#elif defined(__CUDA_ARCH__)
// CUDA before 12.2 does not support all of these instructions.
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1202
#elif __CUDA_ARCH__ >= 900
#define ASHLAR_HAS_MULTIMEM
#endif
#endif

#if defined(ASHLAR_HAS_MULTIMEM)

namespace ashlar::symm::kernels {

#if defined(__CUDACC__) || defined(__CUDA__)

// The instructions for f16 and bf16 vectors differ only in their names.
#define ASHLAR_SUM_OF_HALVES(name, loaded, at)                                                 \
  asm volatile(                                                                                \
      "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4." name " {%0, %1, %2, %3}, [%4];" \
      : "=r"(loaded.word[0]), "=r"(loaded.word[1]), "=r"(loaded.word[2]), "=r"(loaded.word[3]) \
      : "l"(at)                                                                                \
      : "memory")

template <typename Stored>
ASHLAR_ON_DEVICE Vec16 multimem_sum(uint64_t at) {
  Vec16 loaded;
  if constexpr (std::is_same_v<Stored, float>) {
    float lane[4];
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(lane[0]), "=f"(lane[1]), "=f"(lane[2]), "=f"(lane[3])
                 : "l"(at)
                 : "memory");
    for (int i = 0; i < 4; ++i) loaded.word[i] = std::bit_cast<uint32_t>(lane[i]);
  } else if constexpr (std::is_same_v<Stored, F16>) {
    ASHLAR_SUM_OF_HALVES("f16x2", loaded, at);
  } else if constexpr (std::is_same_v<Stored, Bf16>) {
    ASHLAR_SUM_OF_HALVES("bf16x2", loaded, at);
  } else if constexpr (std::is_same_v<Stored, uint32_t>) {
    for (int i = 0; i < 4; ++i) {
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];"
                   : "=r"(loaded.word[i])
                   : "l"(at + 4 * i)
                   : "memory");
    }
  } else {
    uint64_t half[2];
    for (int i = 0; i < 2; ++i) {
      if constexpr (std::is_same_v<Stored, double>) {
        double lane;
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];"
                     : "=d"(lane)
                     : "l"(at + 8 * i)
                     : "memory");
        half[i] = std::bit_cast<uint64_t>(lane);
      } else {
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u64 %0, [%1];"
                     : "=l"(half[i])
                     : "l"(at + 8 * i)
                     : "memory");
      }
      loaded.word[2 * i] = static_cast<uint32_t>(half[i]);
      loaded.word[2 * i + 1] = static_cast<uint32_t>(half[i] >> 32);
    }
  }
  return loaded;
}

// Stores bits of any type. Vector stores exist only for floating-point types, so this uses the
// instruction for f32.
ASHLAR_ON_DEVICE void multimem_store(uint64_t at, const Vec16& value) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at),
               "f"(std::bit_cast<float>(value.word[0])), "f"(std::bit_cast<float>(value.word[1])),
               "f"(std::bit_cast<float>(value.word[2])), "f"(std::bit_cast<float>(value.word[3]))
               : "memory");
}

#undef ASHLAR_SUM_OF_HALVES

#else

template <typename Stored>
Vec16 multimem_sum(uint64_t at) {
  constexpr uint32_t kCount = 16 / sizeof(Stored);
  using P = Pack<Stored, kCount>;
  HostExecutor& executor = *current_executor();
  const uint32_t copies = executor.copy_count(at);
  const auto pack_of = [&](uint32_t copy) -> const P& {
    return *static_cast<const P*>(executor.translate_copy(at, sizeof(P), copy));
  };
  ElementReducer<Stored, Sum> sums[kCount];
  for (uint32_t i = 0; i < kCount; ++i) sums[i].begin(pack_of(0).lane[i]);
  for (uint32_t copy = 1; copy < copies; ++copy) {
    for (uint32_t i = 0; i < kCount; ++i) sums[i].add(pack_of(copy).lane[i]);
  }
  P result;
  for (uint32_t i = 0; i < kCount; ++i) result.lane[i] = sums[i].end(copies);
  return std::bit_cast<Vec16>(result);
}

inline void multimem_store(uint64_t at, const Vec16& value) {
  HostExecutor& executor = *current_executor();
  const uint32_t copies = executor.copy_count(at);
  for (uint32_t copy = 0; copy < copies; ++copy) {
    *static_cast<Vec16*>(executor.translate_copy(at, sizeof(value), copy)) = value;
  }
}

#endif

template <typename Stored>
ASHLAR_ON_DEVICE void run_multimem_sum(const MultimemArguments& args) {
  if (!should_run(args.common, args.barrier)) return;
  for_each_unit<Vec16>(0, args.bytes, [&](uint64_t at) {
    const Vec16 sum = multimem_sum<Stored>(args.multicast + at);
    if (args.to == 0) {
      multimem_store(args.multicast + at, sum);
    } else {
      write_pack(device_memory<Vec16>(args.to + at), sum);
    }
  });
}

ASHLAR_ON_DEVICE void run_multimem_store(const MultimemArguments& args) {
  if (args.is_alone == 0 && !should_run(args.common, args.barrier)) return;
  for_each_unit<Vec16>(0, args.bytes, [&](uint64_t at) {
    multimem_store(args.multicast + at, read_pack(device_memory<Vec16>(args.from + at)));
  });
}

}  // namespace ashlar::symm::kernels

#endif
