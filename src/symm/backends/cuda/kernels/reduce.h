// SPDX-License-Identifier: Apache-2.0
//
// Reduces the elements of all ranks in rank order, with results that are bitwise equal to those of
// the host (symm/collectives/reduce/reduce.h).
#pragma once

#include <bit>
#include <cstddef>
#include <type_traits>

#include "ashlar/symmetric_types.h"
#include "symm/backends/cuda/kernels/barrier.h"
#include "symm/collectives/reduce/combine.h"
#include "symm/collectives/reduce/half.h"

namespace ashlar::symm::kernels {

// CPUs propagate the first of two NaNs and make it quiet; GPUs generate a canonical NaN. A NaN that
// a CPU generates from numbers is negative on x86-64 and positive on other architectures.
// `match_host_nan` therefore replaces the NaNs of a GPU.
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
  static constexpr Bits kGenerated = 0x7FC00000 | kNanSign << 31;
};
template <>
struct NanBits<double> {
  using Bits = uint64_t;
  static constexpr Bits kQuiet = uint64_t{1} << 51;
  static constexpr Bits kGenerated = uint64_t{0x7FF8} << 48 | uint64_t{kNanSign} << 63;
};

template <typename T>
ASHLAR_ON_DEVICE T quiet(T nan) {
  using Bits = typename NanBits<T>::Bits;
  return std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(nan) | NanBits<T>::kQuiet));
}

// Returns `result`, the result of an operation on `a` and `b`, or the NaN that a CPU would return.
template <typename T>
ASHLAR_ON_DEVICE T match_host_nan(T a, T b, T result) {
  if constexpr (std::is_floating_point_v<T>) {
    if (result == result) return result;
    if (a != a) return quiet(a);
    return b != b ? quiet(b) : std::bit_cast<T>(NanBits<T>::kGenerated);
  } else {
    return result;
  }
}

// `to_wide` and `from_wide` convert to and from the type in which elements are combined.
template <typename Stored>
ASHLAR_ON_DEVICE auto to_wide(Stored value) {
  if constexpr (std::is_class_v<Stored>) {
    return widen(value);
  } else {
    return value;
  }
}
template <typename Stored, typename Wide>
ASHLAR_ON_DEVICE Stored from_wide(Wide value) {
  if constexpr (std::is_same_v<Stored, F16>) {
    return narrow_to_f16(value);
  } else if constexpr (std::is_same_v<Stored, Bf16>) {
    return narrow_to_bf16(value);
  } else {
    return value;
  }
}

// Reduces one element: `begin` takes the value of the first rank, `add` the values of the others in
// rank order, and `end` returns the result.
template <typename Stored, typename Op>
struct ElementReducer {
  using Wide = decltype(to_wide(Stored{}));
  Wide total;

  ASHLAR_ON_DEVICE void begin(Stored first) { total = to_wide(first); }
  ASHLAR_ON_DEVICE void add(Stored next) {
    const Wide wide = to_wide(next);
    if constexpr (std::is_same_v<Op, Sum> || std::is_same_v<Op, Product>) {
      total = match_host_nan(total, wide, Op::of(total, wide));
    } else {
      total = Op::of(total, wide);
    }
  }
  ASHLAR_ON_DEVICE Stored end(uint32_t /*count*/) const { return from_wide<Stored>(total); }
};

// Computes the sum divided by the number of ranks. Has the interface of ElementReducer.
template <typename Stored>
struct MeanOfFloats : ElementReducer<Stored, Sum> {
  ASHLAR_ON_DEVICE Stored end(uint32_t count) const {
    const auto divisor = static_cast<decltype(this->total)>(count);
    return from_wide<Stored>(match_host_nan(this->total, divisor, this->total / divisor));
  }
};

// Computes the exact mean, rounded toward zero. Device code has no 128-bit division, so the sum is
// kept in two words and divided by long division. Has the interface of ElementReducer.
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
    uint64_t digits[4] = {low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32};
    if (is_negative) {
      uint64_t carry = 1;
      for (uint64_t& digit : digits) {
        const uint64_t flipped = (~digit & 0xFFFFFFFF) + carry;
        digit = flipped & 0xFFFFFFFF;
        carry = flipped >> 32;
      }
    }
    uint64_t remainder = 0;
    for (int i = 3; i >= 0; --i) {
      const uint64_t digit = remainder << 32 | digits[i];
      digits[i] = digit / count;
      remainder = digit % count;
    }
    const uint64_t mean = digits[1] << 32 | digits[0];
    return static_cast<Stored>(is_negative ? 0 - mean : mean);
  }
};

// The elements that a thread loads and stores at a time.
template <typename Stored, uint32_t kCount>
struct alignas(sizeof(Stored) * kCount) Pack {
  Stored lane[kCount];
};

// Reduces packs from byte `begin` to `end` of the part.
template <typename Stored, typename Accumulator, uint32_t kCount>
ASHLAR_ON_DEVICE void reduce_packs(const ReduceArguments& args, uint64_t begin, uint64_t end) {
  using P = Pack<Stored, kCount>;
  const uint32_t world_size = args.common.world_size;
  const uint64_t scratch = state_of(args.common)->scratch;
  const uint64_t thread = uint64_t{block_index()} * thread_count() + thread_index();
  const uint64_t step = uint64_t{block_count()} * thread_count() * sizeof(P);
  const auto pack_of = [&](uint32_t rank, uint64_t at) {
    return device_memory<P>(args.ranges[rank] + args.begin_bytes + at);
  };
  ASHLAR_NO_UNROLL
  for (uint64_t at = begin + thread * sizeof(P); at < end; at += step) {
    Accumulator sums[kCount];
    P pack = read_pack(pack_of(0, at));
    for (uint32_t i = 0; i < kCount; ++i) sums[i].begin(pack.lane[i]);
    ASHLAR_NO_UNROLL
    for (uint32_t rank = 1; rank < world_size; ++rank) {
      pack = read_pack(pack_of(rank, at));
      for (uint32_t i = 0; i < kCount; ++i) sums[i].add(pack.lane[i]);
    }
    for (uint32_t i = 0; i < kCount; ++i) pack.lane[i] = sums[i].end(world_size);

    if (args.to == ReduceDestination::kAll) {
      ASHLAR_NO_UNROLL
      for (uint32_t rank = 0; rank < world_size; ++rank) write_pack(pack_of(rank, at), pack);
      continue;
    }
    P* to = device_memory<P>((args.to == ReduceDestination::kOut ? args.out : scratch) + at);
    if (args.to != ReduceDestination::kOwnRange) {
      write_pack(to, pack);
      continue;
    }
    write_pack(to, read_pack(pack_of(args.common.rank, at)));
    write_pack(pack_of(args.common.rank, at), pack);
  }
}

// Reduces packs of `kPackBytes` if all addresses are aligned, and the remainder element by element.
template <typename Stored, typename Accumulator, uint32_t kPackBytes = 16>
ASHLAR_ON_DEVICE void reduce_with(const ReduceArguments& args) {
  const uint64_t whole = args.is_aligned != 0 ? args.bytes / kPackBytes * kPackBytes : 0;
  reduce_packs<Stored, Accumulator, kPackBytes / sizeof(Stored)>(args, 0, whole);
  if (whole == args.bytes) return;
  reduce_packs<Stored, Accumulator, 1>(args, whole, args.bytes);
}

template <typename Stored>
ASHLAR_ON_DEVICE void reduce_floats(const ReduceArguments& args) {
  switch (static_cast<ReduceOp>(args.op)) {
    case ReduceOp::kSum: return reduce_with<Stored, ElementReducer<Stored, Sum>>(args);
    case ReduceOp::kProd: return reduce_with<Stored, ElementReducer<Stored, Product>>(args);
    case ReduceOp::kMin: return reduce_with<Stored, ElementReducer<Stored, Min>>(args);
    case ReduceOp::kMax: return reduce_with<Stored, ElementReducer<Stored, Max>>(args);
    default: return reduce_with<Stored, MeanOfFloats<Stored>>(args);
  }
}

// Sums and products are equal for signed and unsigned integers, so they are computed as unsigned.
template <typename Stored>
ASHLAR_ON_DEVICE void reduce_integers(const ReduceArguments& args) {
  constexpr uint32_t kPackBytes = sizeof(Stored) < 4 ? 4 * sizeof(Stored) : 16;
  using Unsigned = std::make_unsigned_t<Stored>;
  switch (static_cast<ReduceOp>(args.op)) {
    case ReduceOp::kSum:
      return reduce_with<Unsigned, ElementReducer<Unsigned, Sum>, kPackBytes>(args);
    case ReduceOp::kProd:
      return reduce_with<Unsigned, ElementReducer<Unsigned, Product>, kPackBytes>(args);
    case ReduceOp::kMin: return reduce_with<Stored, ElementReducer<Stored, Min>, kPackBytes>(args);
    case ReduceOp::kMax: return reduce_with<Stored, ElementReducer<Stored, Max>, kPackBytes>(args);
    default: return reduce_packs<Stored, MeanOfIntegers<Stored>, 1>(args, 0, args.bytes);
  }
}

// Bitwise operations are independent of the element type, so one kernel handles all types.
template <typename Op>
ASHLAR_ON_DEVICE void reduce_bits(const ReduceArguments& args) {
  const uint64_t whole = args.is_aligned != 0 ? args.bytes / 16 * 16 : 0;
  reduce_packs<uint64_t, ElementReducer<uint64_t, Op>, 2>(args, 0, whole);
  reduce_packs<uint8_t, ElementReducer<uint8_t, Op>, 1>(args, whole, args.bytes);
}

// There is one kernel per element type, because compilers take too long for a single kernel that
// handles all types.
template <typename Stored>
ASHLAR_ON_DEVICE void run_reduce(const ReduceArguments& args) {
  if (!should_run(args.common, args.barrier)) return;
  if constexpr (std::is_integral_v<Stored>) {
    reduce_integers<Stored>(args);
  } else {
    reduce_floats<Stored>(args);
  }
}

ASHLAR_ON_DEVICE void run_reduce_bits(const ReduceArguments& args) {
  if (!should_run(args.common, args.barrier)) return;
  switch (static_cast<ReduceOp>(args.op)) {
    case ReduceOp::kAnd: return reduce_bits<And>(args);
    case ReduceOp::kOr: return reduce_bits<Or>(args);
    default: return reduce_bits<Xor>(args);
  }
}

}  // namespace ashlar::symm::kernels
