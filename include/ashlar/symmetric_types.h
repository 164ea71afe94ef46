// SPDX-License-Identifier: Apache-2.0
//
// Value types of symmetric memory: element types, reductions, atomic operations, and the access to
// peers. Also included by device code, so this header has no dependencies.
//
// Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "ashlar/export.h"

namespace ashlar::symm {

// How a rank reaches the memory of another rank.
enum class PeerAccess {
  kDirect,  // loads and stores
  kRemote,  // no loads and stores, because the peer is on another machine
};

enum class ElementType { kF32, kF16, kBf16, kF64, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64 };
enum class ReduceOp { kSum, kMin, kMax, kProd, kAvg, kAnd, kOr, kXor };

ASHLAR_EXPORT std::string_view name(ElementType type);  // returns "bf16", for example
ASHLAR_EXPORT std::string_view name(ReduceOp op);       // returns "sum", for example
ASHLAR_EXPORT size_t element_bytes(ElementType type);

struct Reduction {
  ElementType type = ElementType::kF32;
  ReduceOp op = ReduceOp::kSum;
};

// Returns the ElementType of T, which must be float, double, or an integer of 8 to 64 bits. For
// half-precision types, use the functions that take a Reduction.
template <typename T>
constexpr ElementType element_type() {
  using Value = std::remove_cv_t<T>;
  static_assert(
      std::is_same_v<Value, float> || std::is_same_v<Value, double> ||
          (std::is_integral_v<Value> && !std::is_same_v<Value, bool> && sizeof(Value) <= 8),
      "collectives support float, double and integers");
  if constexpr (std::is_same_v<Value, float>) return ElementType::kF32;
  if constexpr (std::is_same_v<Value, double>) return ElementType::kF64;
  constexpr bool kIsSigned = std::is_signed_v<Value>;
  switch (sizeof(Value)) {
    case 1: return kIsSigned ? ElementType::kI8 : ElementType::kU8;
    case 2: return kIsSigned ? ElementType::kI16 : ElementType::kU16;
    case 4: return kIsSigned ? ElementType::kI32 : ElementType::kU32;
    default: return kIsSigned ? ElementType::kI64 : ElementType::kU64;
  }
}

enum class AtomicKind { kAdd, kAnd, kOr, kXor, kSwap, kCompareAndSwap };
constexpr bool is_known(AtomicKind kind) {
  return kind >= AtomicKind::kAdd && kind <= AtomicKind::kCompareAndSwap;
}
enum class WordBytes : uint8_t { k4 = 4, k8 = 8 };

// An atomic operation on one word of a peer's memory.
struct AtomicOp {
  AtomicKind kind = AtomicKind::kAdd;
  WordBytes word_bytes = WordBytes::k8;
  uint64_t offset = 0;  // in bytes, relative to the handle's offset; aligned to the word
  // With a 4-byte word, only the lower 32 bits of `operand` and `expected` are used.
  uint64_t operand = 0;
  uint64_t expected = 0;  // for kCompareAndSwap: stores `operand` if the word has this value
};

}  // namespace ashlar::symm
