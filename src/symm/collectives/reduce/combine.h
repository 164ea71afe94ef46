// SPDX-License-Identifier: Apache-2.0
//
// Each reduction operation on two elements. Used by the host's loops (reduce_kernels.cc) and
// by device kernels (symm/backends/cuda/kernels/reduce.h); constexpr, so that device code may call
// it.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ashlar::symm {

// The type in which integers of type T are added and multiplied: unsigned, and wide enough not to
// be promoted to `int`, so that results wrap.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

struct Sum {
  template <typename T>
  [[gnu::always_inline]] static constexpr T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct Product {
  template <typename T>
  [[gnu::always_inline]] static constexpr T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

// Returns the first NaN of `a` and `b`, or `result` if neither is NaN. Callers pass `a` as the
// result for equal values, which matters for zeros of different sign.
template <typename T>
[[gnu::always_inline]] constexpr T first_nan_or(T a, T b, T result) {
  if constexpr (std::is_floating_point_v<T>) {
    // NOLINTBEGIN(misc-redundant-expression): only a NaN differs from itself.
    result = b != b ? b : result;
    return a != a ? a : result;
    // NOLINTEND(misc-redundant-expression)
  } else {
    return result;
  }
}

struct Min {
  template <typename T>
  [[gnu::always_inline]] static constexpr T of(T a, T b) {
    return first_nan_or(a, b, b < a ? b : a);
  }
};

struct Max {
  template <typename T>
  [[gnu::always_inline]] static constexpr T of(T a, T b) {
    return first_nan_or(a, b, a < b ? b : a);
  }
};

struct And {
  template <typename T>
  [[gnu::always_inline]] static constexpr T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Or {
  template <typename T>
  [[gnu::always_inline]] static constexpr T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct Xor {
  template <typename T>
  [[gnu::always_inline]] static constexpr T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace ashlar::symm
