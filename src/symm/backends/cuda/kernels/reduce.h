// SPDX-License-Identifier: Apache-2.0
//
// All ranks' elements of a part, combined in rank order, with the bits that the host gives
// (symm/collectives/reduce/reduce.h): halves as f32 with one rounding, integers wrapped, their mean
// exact.
#pragma once

#include <bit>
#include <cstddef>
#include <type_traits>

#include "ashlar/reduction.h"
#include "symm/backends/cuda/kernels/meet.h"
#include "symm/collectives/reduce/combine.h"
#include "symm/collectives/reduce/half.h"

namespace ashlar::symm::kernels {

// --- NaNs as the host's processor makes them ----------------------------------------------------

// Processors keep the first NaN of two, quiet; GPUs make one of their own. What becomes of numbers
// is a NaN with a sign on x86-64 and without one elsewhere.
#if defined(__x86_64__)
inline constexpr uint32_t kNanSign = 1;
#else
inline constexpr uint32_t kNanSign = 0;
#endif

template <typename T>
struct NanBits;
template <>
struct NanBits<float> {
  using Bits = uint32_t;
  static constexpr Bits kQuiet = 0x00400000;
  static constexpr Bits kMade = 0x7FC00000 | kNanSign << 31;
};
template <>
struct NanBits<double> {
  using Bits = uint64_t;
  static constexpr Bits kQuiet = uint64_t{1} << 51;
  static constexpr Bits kMade = uint64_t{0x7FF8} << 48 | uint64_t{kNanSign} << 63;
};

template <typename T>
ASHLAR_ON_DEVICE T quiet(T nan) {
  using Bits = typename NanBits<T>::Bits;
  return std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(nan) | NanBits<T>::kQuiet));
}

template <typename T>
ASHLAR_ON_DEVICE T with_host_nan(T a, T b, T result) {
  if constexpr (std::is_floating_point_v<T>) {
    if (result == result) return result;
    if (a != a) return quiet(a);
    return b != b ? quiet(b) : std::bit_cast<T>(NanBits<T>::kMade);
  } else {
    return result;
  }
}

// --- accumulators -------------------------------------------------------------------------------

// What an element is combined as, and back.
template <typename Stored>
ASHLAR_ON_DEVICE auto widened(Stored value) {
  if constexpr (std::is_class_v<Stored>) {
    return widen(value);
  } else {
    return value;
  }
}
template <typename Stored, typename Wide>
ASHLAR_ON_DEVICE Stored narrowed(Wide value) {
  if constexpr (std::is_same_v<Stored, F16>) {
    return narrow_to_f16(value);
  } else if constexpr (std::is_same_v<Stored, Bf16>) {
    return narrow_to_bf16(value);
  } else {
    return value;
  }
}

template <typename Stored, typename Op>
struct Combined {
  using Wide = decltype(widened(Stored{}));
  Wide total;

  ASHLAR_ON_DEVICE void begin(Stored first) { total = widened(first); }
  ASHLAR_ON_DEVICE void add(Stored next) {
    const Wide wide = widened(next);
    if constexpr (std::is_same_v<Op, Sum> || std::is_same_v<Op, Product>) {
      total = with_host_nan(total, wide, Op::of(total, wide));
    } else {
      total = Op::of(total, wide);
    }
  }
  ASHLAR_ON_DEVICE Stored end(uint32_t /*count*/) const { return narrowed<Stored>(total); }
};

// The sum divided by how many there are.
template <typename Stored>
struct MeanOfFloats : Combined<Stored, Sum> {
  ASHLAR_ON_DEVICE Stored end(uint32_t count) const {
    const auto divisor = static_cast<decltype(this->total)>(count);
    return narrowed<Stored>(with_host_nan(this->total, divisor, this->total / divisor));
  }
};

// The exact mean, toward zero. Compilers for GPUs have no 128 bits to divide, so a sum of 64-bit
// elements is two words, and divided as on paper.
template <typename Stored>
struct MeanOfIntegers {
  uint64_t low;
  uint64_t high;

  ASHLAR_ON_DEVICE void begin(Stored first) {
    low = 0;
    high = 0;
    add(first);
  }
  ASHLAR_ON_DEVICE void add(Stored next) {
    const uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(next));
    const bool is_negative = std::is_signed_v<Stored> && next < Stored{0};
    const uint64_t before = low;
    low += std::is_signed_v<Stored> ? bits : static_cast<uint64_t>(next);
    high += (is_negative ? ~uint64_t{0} : 0) + (low < before ? 1 : 0);
  }
  ASHLAR_ON_DEVICE Stored end(uint32_t count) const {
    const bool is_negative = (high >> 63) != 0;
    uint64_t parts[4] = {low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32};
    if (is_negative) {
      uint64_t carry = 1;
      for (uint64_t& part : parts) {
        const uint64_t flipped = (~part & 0xFFFFFFFF) + carry;
        part = flipped & 0xFFFFFFFF;
        carry = flipped >> 32;
      }
    }
    uint64_t rest = 0;
    for (int i = 3; i >= 0; --i) {
      const uint64_t part = rest << 32 | parts[i];
      parts[i] = part / count;
      rest = part % count;
    }
    const uint64_t mean = parts[1] << 32 | parts[0];
    return static_cast<Stored>(is_negative ? 0 - mean : mean);
  }
};

// --- loops --------------------------------------------------------------------------------------

// As many elements as are moved at once.
template <typename Stored, uint32_t kCount>
struct alignas(sizeof(Stored) * kCount) Pack {
  Stored lane[kCount];
};

// Packs from byte `begin` to `end` of the part.
template <typename Stored, typename Accumulator, uint32_t kCount>
ASHLAR_ON_DEVICE void reduce_packs(const ReduceArguments& what, uint64_t begin, uint64_t end) {
  using P = Pack<Stored, kCount>;
  const uint32_t world_size = what.own.world_size;
  const uint64_t scratch = desk_of(what.own)->scratch;
  const uint64_t thread = uint64_t{block_index()} * thread_count() + thread_index();
  const uint64_t step = uint64_t{block_count()} * thread_count() * sizeof(P);
  const auto pack_of = [&](uint32_t rank, uint64_t at) {
    return device_memory<P>(what.pieces[rank] + what.begin_bytes + at);
  };
  ASHLAR_AS_LOOP
  for (uint64_t at = begin + thread * sizeof(P); at < end; at += step) {
    Accumulator sums[kCount];
    P pack = read_pack(pack_of(0, at));
    for (uint32_t i = 0; i < kCount; ++i) sums[i].begin(pack.lane[i]);
    ASHLAR_AS_LOOP
    for (uint32_t rank = 1; rank < world_size; ++rank) {
      pack = read_pack(pack_of(rank, at));
      for (uint32_t i = 0; i < kCount; ++i) sums[i].add(pack.lane[i]);
    }
    for (uint32_t i = 0; i < kCount; ++i) pack.lane[i] = sums[i].end(world_size);

    if (what.to == ReduceTo::kAll) {
      ASHLAR_AS_LOOP
      for (uint32_t rank = 0; rank < world_size; ++rank) write_pack(pack_of(rank, at), pack);
      continue;
    }
    P* to = device_memory<P>((what.to == ReduceTo::kOut ? what.out : scratch) + at);
    if (what.to != ReduceTo::kSaved) {
      write_pack(to, pack);
      continue;
    }
    write_pack(to, read_pack(pack_of(what.own.rank, at)));
    write_pack(pack_of(what.own.rank, at), pack);
  }
}

// Each element by itself, `kPackBytes` of them at once where all is aligned so.
template <typename Stored, typename Accumulator, uint32_t kPackBytes = 16>
ASHLAR_ON_DEVICE void reduce_with(const ReduceArguments& what) {
  const uint64_t whole = what.is_aligned != 0 ? what.bytes / kPackBytes * kPackBytes : 0;
  reduce_packs<Stored, Accumulator, kPackBytes / sizeof(Stored)>(what, 0, whole);
  if (whole == what.bytes) return;
  reduce_packs<Stored, Accumulator, 1>(what, whole, what.bytes);
}

template <typename Stored>
ASHLAR_ON_DEVICE void reduce_floats(const ReduceArguments& what) {
  switch (static_cast<ReduceOp>(what.op)) {
    case ReduceOp::kSum: return reduce_with<Stored, Combined<Stored, Sum>>(what);
    case ReduceOp::kProd: return reduce_with<Stored, Combined<Stored, Product>>(what);
    case ReduceOp::kMin: return reduce_with<Stored, Combined<Stored, Min>>(what);
    case ReduceOp::kMax: return reduce_with<Stored, Combined<Stored, Max>>(what);
    default: return reduce_with<Stored, MeanOfFloats<Stored>>(what);
  }
}

// With or without a sign, sums and products are the same.
template <typename Stored>
ASHLAR_ON_DEVICE void reduce_integers(const ReduceArguments& what) {
  constexpr uint32_t kPackBytes = sizeof(Stored) < 4 ? 4 * sizeof(Stored) : 16;
  using Plain = std::make_unsigned_t<Stored>;
  switch (static_cast<ReduceOp>(what.op)) {
    case ReduceOp::kSum: return reduce_with<Plain, Combined<Plain, Sum>, kPackBytes>(what);
    case ReduceOp::kProd: return reduce_with<Plain, Combined<Plain, Product>, kPackBytes>(what);
    case ReduceOp::kMin: return reduce_with<Stored, Combined<Stored, Min>, kPackBytes>(what);
    case ReduceOp::kMax: return reduce_with<Stored, Combined<Stored, Max>, kPackBytes>(what);
    default: return reduce_packs<Stored, MeanOfIntegers<Stored>, 1>(what, 0, what.bytes);
  }
}

// And bits know no elements.
template <typename Op>
ASHLAR_ON_DEVICE void reduce_bits(const ReduceArguments& what) {
  const uint64_t whole = what.is_aligned != 0 ? what.bytes / 16 * 16 : 0;
  reduce_packs<uint64_t, Combined<uint64_t, Op>, 2>(what, 0, whole);
  reduce_packs<uint8_t, Combined<uint8_t, Op>, 1>(what, whole, what.bytes);
}

// A kernel for each type of elements: compilers choke on one for all.
template <typename Stored>
ASHLAR_ON_DEVICE void run_reduce(const ReduceArguments& what) {
  if (!is_to_be_done(what.own, what.meeting)) return;
  if constexpr (std::is_integral_v<Stored>) {
    reduce_integers<Stored>(what);
  } else {
    reduce_floats<Stored>(what);
  }
}

ASHLAR_ON_DEVICE void run_reduce_bits(const ReduceArguments& what) {
  if (!is_to_be_done(what.own, what.meeting)) return;
  switch (static_cast<ReduceOp>(what.op)) {
    case ReduceOp::kAnd: return reduce_bits<And>(what);
    case ReduceOp::kOr: return reduce_bits<Or>(what);
    default: return reduce_bits<Xor>(what);
  }
}

}  // namespace ashlar::symm::kernels
