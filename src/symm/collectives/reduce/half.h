// SPDX-License-Identifier: Apache-2.0
//
// Conversion of 16-bit floating-point numbers to f32 and back, without branches, so that compilers
// vectorize it. Rounds to nearest even; overflows to infinity; a NaN becomes quiet and keeps the
// upper bits of its payload, as on processors. The functions are constexpr, so that device code may
// call them.
#pragma once

#include <bit>
#include <cstdint>

namespace ashlar::symm {

struct F16 {
  uint16_t bits = 0;
};
struct Bf16 {
  uint16_t bits = 0;
};

constexpr float widen(Bf16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return std::bit_cast<float>(is_nan ? bits | 0x00400000 : bits);
}

constexpr Bf16 narrow_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  const uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1);
  return {static_cast<uint16_t>((is_nan ? bits | 0x00400000 : rounded) >> 16)};
}

constexpr float widen(F16 value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t rest = uint32_t{value.bits & 0x7FFFu} << 13;  // exponent and fraction, in place
  const uint32_t exponent = rest & 0x0F800000;
  // Normal: change the exponent bias. Infinite or NaN: set all exponent bits. Subnormal: the
  // fraction is a multiple of 2^-24, which f32 represents exactly; adding and subtracting 2^-14
  // normalizes it.
  const uint32_t normal = rest + ((127 - 15) << 23);
  const uint32_t special = rest | 0x7F800000 | ((rest & 0x007FFFFF) != 0 ? 0x00400000 : 0);
  const float tiny = std::bit_cast<float>(rest + (113u << 23)) - std::bit_cast<float>(113u << 23);
  uint32_t bits = exponent == 0 ? std::bit_cast<uint32_t>(tiny) : normal;
  bits = exponent == 0x0F800000 ? special : bits;
  return std::bit_cast<float>(sign | bits);
}

constexpr F16 narrow_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t rest = bits & 0x7FFFFFFF;
  // Normal: change the exponent bias and round, which may carry into the exponent up to infinity.
  const uint32_t normal = (rest - ((127 - 15) << 23) + 0x0FFF + ((rest >> 13) & 1)) >> 13;
  // Below 2^-14: adding 0.5 makes the processor round to a multiple of 2^-24.
  const float shifted = std::bit_cast<float>(rest) + 0.5f;
  const uint32_t tiny = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t nan = 0x7E00 | ((rest >> 13) & 0x03FF);
  uint32_t out = rest < 0x38800000 ? tiny : normal;
  out = rest >= 0x47800000 ? 0x7C00 : out;
  out = rest > 0x7F800000 ? nan : out;
  return {static_cast<uint16_t>(sign | out)};
}

}  // namespace ashlar::symm
