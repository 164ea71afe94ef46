// SPDX-License-Identifier: Apache-2.0
//
// Reductions: row by row through a buffer that stays in the nearest cache.
#include "symm/collectives/reduce/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace ashlar::symm {
namespace {

using InputRows = std::span<const std::byte* const>;

// Elements of one row: 2 KiB of f32 and 4 KiB of f64, of which two or three are in use at once.
constexpr size_t kRowCount = 512;

template <typename T>
const T* row(InputRows sources, size_t source, size_t begin) {
  return reinterpret_cast<const T*>(sources[source]) + begin;
}

// Types that are combined as they are. The last combination writes to `out`, so that nothing is
// written there before all sources were read.
template <typename T>
void combine_rows(CombineRow combine, InputRows sources, T* out, size_t begin, size_t count) {
  // Bytes, because what they hold is the business of `combine`.
  alignas(64) std::byte partial[kRowCount * sizeof(T)];
  const void* left = row<T>(sources, 0, begin);
  for (size_t source = 1; source < sources.size(); ++source) {
    void* to = partial;
    if (source + 1 == sources.size()) to = out + begin;
    combine(to, left, row<T>(sources, source, begin), count);
    left = partial;
  }
}

template <typename T>
void reduce_as_is(CombineRow combine, InputRows sources, std::byte* out, size_t count) {
  T* to = reinterpret_cast<T*>(out);
  for (size_t begin = 0; begin < count; begin += kRowCount) {
    combine_rows<T>(combine, sources, to, begin, std::min(kRowCount, count - begin));
  }
}

template <typename T, typename Divide>
void average_floats(CombineRow sum, Divide divide, InputRows sources, std::byte* out,
                    size_t count) {
  T* to = reinterpret_cast<T*>(out);
  reduce_as_is<T>(sum, sources, out, count);
  divide(to, to, static_cast<T>(sources.size()), count);
}

// f16 and bf16.
template <typename Half, typename Widen, typename Narrow>
void reduce_halves(const Reduction& what, InputRows sources, std::byte* out, size_t count,
                   const Rows& rows, Widen widen, Narrow narrow) {
  const bool is_average = what.op == ReduceOp::kAvg;
  const ReduceOp op = is_average ? ReduceOp::kSum : what.op;
  const CombineRow combine =
      rows.combine[static_cast<size_t>(op)][static_cast<size_t>(ElementType::kF32)];
  alignas(64) float total[kRowCount];
  alignas(64) float next[kRowCount];
  for (size_t begin = 0; begin < count; begin += kRowCount) {
    const size_t n = std::min(kRowCount, count - begin);
    widen(total, row<Half>(sources, 0, begin), n);
    for (size_t source = 1; source < sources.size(); ++source) {
      widen(next, row<Half>(sources, source, begin), n);
      combine(total, total, next, n);
    }
    if (is_average) {
      rows.divide_f32(total, total, static_cast<float>(sources.size()), n);
    }
    narrow(reinterpret_cast<Half*>(out) + begin, total, n);
  }
}

__extension__ using Int128 = __int128;

// Up to 2^16 sources of 32 bits fit 64, of 64 bits they fit 128.
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

void average(ElementType type, InputRows sources, std::byte* out, size_t count, const Rows& rows) {
  const auto& sums = rows.combine[static_cast<size_t>(ReduceOp::kSum)];
  const CombineRow sum = sums[static_cast<size_t>(type)];
  switch (type) {
    case ElementType::kF32: return average_floats<float>(sum, rows.divide_f32, sources, out, count);
    case ElementType::kF64:
      return average_floats<double>(sum, rows.divide_f64, sources, out, count);
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

void reduce(const Reduction& what, InputRows sources, std::byte* out, size_t count,
            const Rows& rows) {
  const size_t bytes = count * element_bytes(what.type);
  if (bytes == 0) return;
  // Whatever the operation, one source is the result, bit for bit.
  if (sources.size() == 1) {
    if (out != sources[0]) std::memcpy(out, sources[0], bytes);
    return;
  }
  if (what.type == ElementType::kF16) {
    return reduce_halves<F16>(what, sources, out, count, rows, rows.widen_f16, rows.narrow_f16);
  }
  if (what.type == ElementType::kBf16) {
    return reduce_halves<Bf16>(what, sources, out, count, rows, rows.widen_bf16, rows.narrow_bf16);
  }
  if (what.op == ReduceOp::kAvg) return average(what.type, sources, out, count, rows);
  const CombineRow combine =
      rows.combine[static_cast<size_t>(what.op)][static_cast<size_t>(what.type)];
  ASHLAR_CHECK(combine != nullptr);
  switch (element_bytes(what.type)) {
    case 1: return reduce_as_is<uint8_t>(combine, sources, out, count);
    case 2: return reduce_as_is<uint16_t>(combine, sources, out, count);
    case 4: return reduce_as_is<uint32_t>(combine, sources, out, count);
    default: return reduce_as_is<uint64_t>(combine, sources, out, count);
  }
}

}  // namespace ashlar::symm
