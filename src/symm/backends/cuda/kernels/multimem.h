// SPDX-License-Identifier: Apache-2.0
//
// Work on multicast addresses: what is loaded there is the sum of what all ranks have, and what is
// stored there reaches all. The switch between the GPUs does it, from compute capability 9.0 on,
// for GPUs that are compiled for (ASHLAR_HAS_MULTIMEM); in which order it adds is its own affair.
// On the host, for tests, every rank's memory is read and written.
//
// Nothing but 16 bytes at a time: what is left over is done by the kernels that know all ranks'
// memory.
#pragma once

#include "symm/backends/cuda/kernels/meet.h"
#include "symm/backends/cuda/kernels/reduce.h"

#if !defined(__CUDACC__) && !defined(__CUDA__)
#define ASHLAR_HAS_MULTIMEM
#elif defined(__CUDA_ARCH__)
// Compilers before CUDA 12.2 do not know all of it.
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1202
#elif __CUDA_ARCH__ >= 900
#define ASHLAR_HAS_MULTIMEM
#endif
#endif

#if defined(ASHLAR_HAS_MULTIMEM)

namespace ashlar::symm::kernels {

#if defined(__CUDACC__) || defined(__CUDA__)

// For vectors of halves and words of integers the instruction differs in nothing but its name.
#define ASHLAR_SUM_OF_HALVES(name, loaded, at)                                                 \
  asm volatile(                                                                                \
      "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4." name " {%0, %1, %2, %3}, [%4];" \
      : "=r"(loaded.word[0]), "=r"(loaded.word[1]), "=r"(loaded.word[2]), "=r"(loaded.word[3]) \
      : "l"(at)                                                                                \
      : "memory")

template <typename Stored>
ASHLAR_ON_DEVICE Sixteen multimem_sum(uint64_t at) {
  Sixteen loaded;
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

// Bits, whatever they mean: there are no vectors of anything but floating-point numbers.
ASHLAR_ON_DEVICE void multimem_store(uint64_t at, const Sixteen& what) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at),
               "f"(std::bit_cast<float>(what.word[0])), "f"(std::bit_cast<float>(what.word[1])),
               "f"(std::bit_cast<float>(what.word[2])), "f"(std::bit_cast<float>(what.word[3]))
               : "memory");
}

#undef ASHLAR_SUM_OF_HALVES

#else

template <typename Stored>
Sixteen multimem_sum(uint64_t at) {
  constexpr uint32_t kCount = 16 / sizeof(Stored);
  using P = Pack<Stored, kCount>;
  HostMachine& machine = *running_machine();
  const uint32_t copies = machine.copy_count(at);
  const auto pack_of = [&](uint32_t copy) -> const P& {
    return *static_cast<const P*>(machine.see_copy(at, sizeof(P), copy));
  };
  Combined<Stored, Sum> sums[kCount];
  for (uint32_t i = 0; i < kCount; ++i) sums[i].begin(pack_of(0).lane[i]);
  for (uint32_t copy = 1; copy < copies; ++copy) {
    for (uint32_t i = 0; i < kCount; ++i) sums[i].add(pack_of(copy).lane[i]);
  }
  P result;
  for (uint32_t i = 0; i < kCount; ++i) result.lane[i] = sums[i].end(copies);
  return std::bit_cast<Sixteen>(result);
}

inline void multimem_store(uint64_t at, const Sixteen& what) {
  HostMachine& machine = *running_machine();
  const uint32_t copies = machine.copy_count(at);
  for (uint32_t copy = 0; copy < copies; ++copy) {
    *static_cast<Sixteen*>(machine.see_copy(at, sizeof(what), copy)) = what;
  }
}

#endif

// --- kernels ------------------------------------------------------------------------------------

template <typename Stored>
ASHLAR_ON_DEVICE void run_multimem_sum(const MultimemArguments& what) {
  if (!is_to_be_done(what.own, what.meeting)) return;
  for_units<Sixteen>(0, what.bytes, [&](uint64_t at) {
    const Sixteen sum = multimem_sum<Stored>(what.multicast + at);
    if (what.to == 0) {
      multimem_store(what.multicast + at, sum);
    } else {
      write_pack(device_memory<Sixteen>(what.to + at), sum);
    }
  });
}

ASHLAR_ON_DEVICE void run_multimem_store(const MultimemArguments& what) {
  if (what.is_alone == 0 && !is_to_be_done(what.own, what.meeting)) return;
  for_units<Sixteen>(0, what.bytes, [&](uint64_t at) {
    multimem_store(what.multicast + at, read_pack(device_memory<Sixteen>(what.from + at)));
  });
}

}  // namespace ashlar::symm::kernels

#endif
