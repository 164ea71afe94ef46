// SPDX-License-Identifier: Apache-2.0
//
// Tests the conversion of every 16-bit floating-point number, and rounding between neighbours.
#include "symm/collectives/reduce/half.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "symm/collectives/reduce/reduce_kernels.h"

namespace ashlar::symm {
namespace {

// Returns the value of `bits`, computed from sign, exponent and fraction.
double value_of(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int exponent = (bits & 0x7FFF) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

template <typename Half, typename Narrow>
void check_every_number(int exponent_bits, Narrow narrow) {
  for (uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float wide = widen(Half{bits});
    const double wanted = value_of(bits, exponent_bits);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(wide)) << i;
      const int quiet = 1 << (14 - exponent_bits);
      ASSERT_EQ(narrow(wide).bits, bits | quiet) << i;
    } else {
      ASSERT_EQ(wide, wanted) << i;
      ASSERT_EQ(std::signbit(wide), std::signbit(wanted)) << i;
      ASSERT_EQ(narrow(wide).bits, bits) << i;
    }
  }
}

// Checks that a number halfway between two neighbours is rounded to even, and other numbers to
// nearest.
template <typename Half, typename Narrow>
void check_roundings(uint16_t infinity, Narrow narrow) {
  for (uint16_t low = 0; low < infinity; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const double from = widen(Half{low});
    // Infinity counts as the next number after the largest number, at the distance of the previous
    // step.
    const double step = high == infinity ? from - widen(Half{static_cast<uint16_t>(low - 1)})
                                         : widen(Half{high}) - from;
    const auto middle = static_cast<float>(from + step / 2);
    ASSERT_EQ(narrow(middle).bits, low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)).bits, low) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, INFINITY)).bits, high) << low;
    ASSERT_EQ(narrow(-middle).bits, narrow(middle).bits | 0x8000) << low;
  }
  EXPECT_EQ(narrow(std::numeric_limits<float>::max()).bits, infinity);
}

TEST(Half, F16SurvivesWideningAndNarrowing) { check_every_number<F16>(5, narrow_to_f16); }
TEST(Half, Bf16SurvivesWideningAndNarrowing) { check_every_number<Bf16>(8, narrow_to_bf16); }
TEST(Half, F16IsRoundedToNearestEven) { check_roundings<F16>(0x7C00, narrow_to_f16); }
TEST(Half, Bf16IsRoundedToNearestEven) { check_roundings<Bf16>(0x7F80, narrow_to_bf16); }

TEST(Half, ProcessorInstructionsGiveEqualResults) {
  const ReduceKernels& kernels = best_kernels();
  std::vector<float> wide(8);
  std::vector<F16> narrow(8);
  for (uint32_t i = 0; i <= 0xFFFF; i += 8) {
    for (uint32_t k = 0; k < 8; ++k) narrow[k] = {static_cast<uint16_t>(i + k)};
    kernels.widen_f16(wide.data(), narrow.data(), 8);
    for (size_t k = 0; k < 8; ++k) {
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[k]), std::bit_cast<uint32_t>(widen(narrow[k])));
    }
  }
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 8 * 1021) {
    for (uint32_t k = 0; k < 8; ++k) {
      wide[k] = std::bit_cast<float>(static_cast<uint32_t>(bits + k * 1021));
    }
    kernels.narrow_f16(narrow.data(), wide.data(), 8);
    for (size_t k = 0; k < 8; ++k) {
      ASSERT_EQ(narrow[k].bits, narrow_to_f16(wide[k]).bits) << wide[k];
    }
  }
}

}  // namespace
}  // namespace ashlar::symm
