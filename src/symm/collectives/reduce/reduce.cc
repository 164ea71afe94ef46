// SPDX-License-Identifier: Apache-2.0
//
// Reduces row by row. A row is a run of elements that fits the L1 cache.
#include "symm/collectives/reduce/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace ashlar::symm {
namespace {

using InputRows = std::span<const std::byte* const>;

// The number of elements in a row: 2 KiB of f32 or 4 KiB of f64. Two or three rows are in use at a
// time.
constexpr size_t kRowElements = 512;

template <typename T>
const T* row(InputRows sources, size_t source, size_t begin) {
  return reinterpret_cast<const T*>(sources[source]) + begin;
}

// Reduces one row of a type that needs no conversion. Only the last combination writes to `out`,
// after all other sources have been read, because `out` may equal a source.
template <typename T>
void combine_rows(CombineRow combine, InputRows sources, T* out, size_t begin, size_t count) {
  // Untyped, because `combine` determines the element type.
  alignas(64) std::byte partial[kRowElements * sizeof(T)];
  const void* left = row<T>(sources, 0, begin);
  for (size_t source = 1; source < sources.size(); ++source) {
    void* to = partial;
    if (source + 1 == sources.size()) to = out + begin;
    combine(to, left, row<T>(sources, source, begin), count);
    left = partial;
  }
}

template <typename T>
void reduce_without_conversion(CombineRow combine, InputRows sources, std::byte* out,
                               size_t count) {
  T* to = reinterpret_cast<T*>(out);
  for (size_t begin = 0; begin < count; begin += kRowElements) {
    combine_rows<T>(combine, sources, to, begin, std::min(kRowElements, count - begin));
  }
}

template <typename T, typename Divide>
void average_floats(CombineRow sum, Divide divide, InputRows sources, std::byte* out,
                    size_t count) {
  T* to = reinterpret_cast<T*>(out);
  reduce_without_conversion<T>(sum, sources, out, count);
  divide(to, to, static_cast<T>(sources.size()), count);
}

// Reduces f16 or bf16: widens the elements to f32 and rounds only the result.
template <typename Half, typename Widen, typename Narrow>
void reduce_halves(const Reduction& reduction, InputRows sources, std::byte* out, size_t count,
                   const ReduceKernels& kernels, Widen widen, Narrow narrow) {
  const bool is_average = reduction.op == ReduceOp::kAvg;
  const ReduceOp op = is_average ? ReduceOp::kSum : reduction.op;
  const CombineRow combine =
      kernels.combine[static_cast<size_t>(op)][static_cast<size_t>(ElementType::kF32)];
  alignas(64) float total[kRowElements];
  alignas(64) float next[kRowElements];
  for (size_t begin = 0; begin < count; begin += kRowElements) {
    const size_t n = std::min(kRowElements, count - begin);
    widen(total, row<Half>(sources, 0, begin), n);
    for (size_t source = 1; source < sources.size(); ++source) {
      widen(next, row<Half>(sources, source, begin), n);
      combine(total, total, next, n);
    }
    if (is_average) {
      kernels.divide_f32(total, total, static_cast<float>(sources.size()), n);
    }
    narrow(reinterpret_cast<Half*>(out) + begin, total, n);
  }
}

__extension__ using Int128 = __int128;

// Averages integers exactly, rounding toward zero. The sum of up to 2^16 elements of at most 32
// bits fits 64 bits; the sum of 64-bit elements fits 128 bits.
template <typename T>
void average_integers(InputRows sources, std::byte* out, size_t count) {
  using Wide = std::conditional_t<sizeof(T) == 8, Int128, int64_t>;
  const Wide divisor = static_cast<Wide>(sources.size());
  for (size_t i = 0; i < count; ++i) {
    Wide total = 0;
    for (size_t source = 0; source < sources.size(); ++source) {
      total += *row<T>(sources, source, i);
    }
    reinterpret_cast<T*>(out)[i] = static_cast<T>(total / divisor);
  }
}

void average(ElementType type, InputRows sources, std::byte* out, size_t count,
             const ReduceKernels& kernels) {
  const auto& sums = kernels.combine[static_cast<size_t>(ReduceOp::kSum)];
  const CombineRow sum = sums[static_cast<size_t>(type)];
  switch (type) {
    case ElementType::kF32:
      return average_floats<float>(sum, kernels.divide_f32, sources, out, count);
    case ElementType::kF64:
      return average_floats<double>(sum, kernels.divide_f64, sources, out, count);
    case ElementType::kI8: return average_integers<int8_t>(sources, out, count);
    case ElementType::kI16: return average_integers<int16_t>(sources, out, count);
    case ElementType::kI32: return average_integers<int32_t>(sources, out, count);
    case ElementType::kI64: return average_integers<int64_t>(sources, out, count);
    case ElementType::kU8: return average_integers<uint8_t>(sources, out, count);
    case ElementType::kU16: return average_integers<uint16_t>(sources, out, count);
    case ElementType::kU32: return average_integers<uint32_t>(sources, out, count);
    case ElementType::kU64: return average_integers<uint64_t>(sources, out, count);
    case ElementType::kF16:
    case ElementType::kBf16: break;
  }
  ASHLAR_CHECK(false && "halves are averaged as f32");
}

}  // namespace

void reduce(const Reduction& reduction, InputRows sources, std::byte* out, size_t count,
            const ReduceKernels& kernels) {
  const size_t bytes = count * element_bytes(reduction.type);
  if (bytes == 0) return;
  // A single source is copied bitwise, for any operation.
  if (sources.size() == 1) {
    if (out != sources[0]) std::memcpy(out, sources[0], bytes);
    return;
  }
  if (reduction.type == ElementType::kF16) {
    return reduce_halves<F16>(reduction, sources, out, count, kernels, kernels.widen_f16,
                              kernels.narrow_f16);
  }
  if (reduction.type == ElementType::kBf16) {
    return reduce_halves<Bf16>(reduction, sources, out, count, kernels, kernels.widen_bf16,
                               kernels.narrow_bf16);
  }
  if (reduction.op == ReduceOp::kAvg) return average(reduction.type, sources, out, count, kernels);
  const CombineRow combine =
      kernels.combine[static_cast<size_t>(reduction.op)][static_cast<size_t>(reduction.type)];
  ASHLAR_CHECK(combine != nullptr);
  switch (element_bytes(reduction.type)) {
    case 1: return reduce_without_conversion<uint8_t>(combine, sources, out, count);
    case 2: return reduce_without_conversion<uint16_t>(combine, sources, out, count);
    case 4: return reduce_without_conversion<uint32_t>(combine, sources, out, count);
    default: return reduce_without_conversion<uint64_t>(combine, sources, out, count);
  }
}

}  // namespace ashlar::symm
