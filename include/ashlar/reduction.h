// SPDX-License-Identifier: Apache-2.0
//
// What collectives compute with: the types of elements, and the operations on them.
#pragma once

#include <cstddef>
#include <string_view>

#include "ashlar/export.h"

namespace ashlar::symm {

enum class ElementType { kF32, kF16, kBf16, kF64, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64 };
enum class ReduceOp { kSum, kMin, kMax, kProd, kAvg, kAnd, kOr, kXor };

ASHLAR_EXPORT std::string_view name(ElementType type);  // "bf16"
ASHLAR_EXPORT std::string_view name(ReduceOp op);       // "sum"
ASHLAR_EXPORT size_t element_bytes(ElementType type);

struct Reduction {
  ElementType type = ElementType::kF32;
  ReduceOp op = ReduceOp::kSum;
};

}  // namespace ashlar::symm
