// What collectives compute with: the types of elements, and the operations on them.
#pragma once

#include <cstddef>
#include <string_view>

#include "ashlar/status.h"

namespace ashlar::symm {

enum class ElementType { kF32, kF16, kBf16, kF64, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64 };
enum class ReduceOp { kSum, kMin, kMax, kProd, kAvg, kAnd, kOr, kXor };

inline constexpr int kElementTypeCount = 12;
inline constexpr int kReduceOpCount = 8;

std::string_view name(ElementType type);  // "bf16"
std::string_view name(ReduceOp op);       // "sum"
size_t element_bytes(ElementType type);
bool is_float(ElementType type);

// kUsage: one of the two is none of those above, or bits of a floating-point number are asked for.
Status check_reducible(ElementType type, ReduceOp op);

}  // namespace ashlar::symm
