// SPDX-License-Identifier: Apache-2.0
//
// The loop bodies are compiled for the baseline instruction set and for AVX2; only the f16
// conversions have a separate AVX2 version. AVX-512 is not used: data that does not fit in the
// caches is limited by memory bandwidth, and for cached data AVX2 is as fast as the copies between
// ranks that precede and follow the loops.
#include "symm/collectives/reduce/reduce_kernels.h"

#include <cstdint>
#include <type_traits>

#include "symm/collectives/reduce/combine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Tells compilers that the iterations of a loop are independent. `out` may equal an input, which
// compilers would treat as an overlap that prevents vectorization.
#if defined(__clang__)
#define ASHLAR_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define ASHLAR_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

#define ASHLAR_BODY [[gnu::always_inline]] inline

namespace ashlar::symm {
namespace {

template <typename T, typename Op>
ASHLAR_BODY void combine_body(void* out, const void* a, const void* b, size_t count) {
  T* to = static_cast<T*>(out);
  const T* left = static_cast<const T*>(a);
  const T* right = static_cast<const T*>(b);
  ASHLAR_INDEPENDENT_ITERATIONS
  for (size_t i = 0; i < count; ++i) to[i] = Op::of(left[i], right[i]);
}

template <typename T>
ASHLAR_BODY void divide_body(T* out, const T* in, T divisor, size_t count) {
  ASHLAR_INDEPENDENT_ITERATIONS
  for (size_t i = 0; i < count; ++i) out[i] = in[i] / divisor;
}

template <typename Half>
ASHLAR_BODY void widen_body(float* out, const Half* in, size_t count) {
  ASHLAR_INDEPENDENT_ITERATIONS
  for (size_t i = 0; i < count; ++i) out[i] = widen(in[i]);
}

ASHLAR_BODY void narrow_f16_body(F16* out, const float* in, size_t count) {
  ASHLAR_INDEPENDENT_ITERATIONS
  for (size_t i = 0; i < count; ++i) out[i] = narrow_to_f16(in[i]);
}

ASHLAR_BODY void narrow_bf16_body(Bf16* out, const float* in, size_t count) {
  ASHLAR_INDEPENDENT_ITERATIONS
  for (size_t i = 0; i < count; ++i) out[i] = narrow_to_bf16(in[i]);
}

// Kernels for the baseline instruction set.
struct Portable {
  template <typename T, typename Op>
  static void combine(void* out, const void* a, const void* b, size_t count) {
    combine_body<T, Op>(out, a, b, count);
  }
  static void widen_f16(float* out, const F16* in, size_t count) { widen_body(out, in, count); }
  static void narrow_f16(F16* out, const float* in, size_t count) {
    narrow_f16_body(out, in, count);
  }
  static void widen_bf16(float* out, const Bf16* in, size_t count) { widen_body(out, in, count); }
  static void narrow_bf16(Bf16* out, const float* in, size_t count) {
    narrow_bf16_body(out, in, count);
  }
  static void divide_f32(float* out, const float* in, float divisor, size_t count) {
    divide_body(out, in, divisor, count);
  }
  static void divide_f64(double* out, const double* in, double divisor, size_t count) {
    divide_body(out, in, divisor, count);
  }
};

#if defined(__x86_64__)
#define ASHLAR_AVX2 __attribute__((target("avx2,f16c")))

struct Avx2 {
  template <typename T, typename Op>
  ASHLAR_AVX2 static void combine(void* out, const void* a, const void* b, size_t count) {
    combine_body<T, Op>(out, a, b, count);
  }
  ASHLAR_AVX2 static void widen_f16(float* out, const F16* in, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
    }
    for (; i < count; ++i) out[i] = widen(in[i]);
  }
  ASHLAR_AVX2 static void narrow_f16(F16* out, const float* in, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
    }
    for (; i < count; ++i) out[i] = narrow_to_f16(in[i]);
  }
  ASHLAR_AVX2 static void widen_bf16(float* out, const Bf16* in, size_t count) {
    widen_body(out, in, count);
  }
  ASHLAR_AVX2 static void narrow_bf16(Bf16* out, const float* in, size_t count) {
    narrow_bf16_body(out, in, count);
  }
  ASHLAR_AVX2 static void divide_f32(float* out, const float* in, float divisor, size_t count) {
    divide_body(out, in, divisor, count);
  }
  ASHLAR_AVX2 static void divide_f64(double* out, const double* in, double divisor, size_t count) {
    divide_body(out, in, divisor, count);
  }
};
#endif

constexpr CombineRow& kernel_of(ReduceKernels& kernels, ReduceOp op, ElementType type) {
  return kernels.combine[static_cast<size_t>(op)][static_cast<size_t>(type)];
}

template <typename Isa, typename T>
constexpr void add_ordered(ReduceKernels& kernels, ElementType type) {
  kernel_of(kernels, ReduceOp::kMin, type) = Isa::template combine<T, Min>;
  kernel_of(kernels, ReduceOp::kMax, type) = Isa::template combine<T, Max>;
}

template <typename Isa, typename T>
constexpr void add_float(ReduceKernels& kernels, ElementType type) {
  kernel_of(kernels, ReduceOp::kSum, type) = Isa::template combine<T, Sum>;
  kernel_of(kernels, ReduceOp::kProd, type) = Isa::template combine<T, Product>;
  add_ordered<Isa, T>(kernels, type);
}

// Sums, products and bitwise operations are equal for signed and unsigned integers, so both types
// share these kernels.
template <typename Isa, typename T>
constexpr void add_integers(ReduceKernels& kernels, ElementType unsigned_type,
                            ElementType signed_type) {
  for (const ElementType type : {unsigned_type, signed_type}) {
    kernel_of(kernels, ReduceOp::kSum, type) = Isa::template combine<T, Sum>;
    kernel_of(kernels, ReduceOp::kProd, type) = Isa::template combine<T, Product>;
    kernel_of(kernels, ReduceOp::kAnd, type) = Isa::template combine<T, And>;
    kernel_of(kernels, ReduceOp::kOr, type) = Isa::template combine<T, Or>;
    kernel_of(kernels, ReduceOp::kXor, type) = Isa::template combine<T, Xor>;
  }
  add_ordered<Isa, T>(kernels, unsigned_type);
  add_ordered<Isa, std::make_signed_t<T>>(kernels, signed_type);
}

template <typename Isa>
constexpr ReduceKernels make_kernels(const char* name) {
  ReduceKernels kernels;
  kernels.name = name;
  add_float<Isa, float>(kernels, ElementType::kF32);
  add_float<Isa, double>(kernels, ElementType::kF64);
  add_integers<Isa, uint8_t>(kernels, ElementType::kU8, ElementType::kI8);
  add_integers<Isa, uint16_t>(kernels, ElementType::kU16, ElementType::kI16);
  add_integers<Isa, uint32_t>(kernels, ElementType::kU32, ElementType::kI32);
  add_integers<Isa, uint64_t>(kernels, ElementType::kU64, ElementType::kI64);
  kernels.widen_f16 = Isa::widen_f16;
  kernels.narrow_f16 = Isa::narrow_f16;
  kernels.widen_bf16 = Isa::widen_bf16;
  kernels.narrow_bf16 = Isa::narrow_bf16;
  kernels.divide_f32 = Isa::divide_f32;
  kernels.divide_f64 = Isa::divide_f64;
  return kernels;
}

constexpr ReduceKernels kPortableKernels = make_kernels<Portable>("plain");
#if defined(__x86_64__)
constexpr ReduceKernels kAvx2Kernels = make_kernels<Avx2>("avx2");
#endif

}  // namespace

const ReduceKernels& portable_kernels() { return kPortableKernels; }

const ReduceKernels& best_kernels() {
#if defined(__x86_64__)
  // Every processor with AVX2 has F16C, so F16C is not checked.
  if (__builtin_cpu_supports("avx2")) return kAvx2Kernels;
#endif
  return kPortableKernels;
}

}  // namespace ashlar::symm
