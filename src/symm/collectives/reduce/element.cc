// SPDX-License-Identifier: Apache-2.0
//
// Lists the names and sizes of element types, and the operations that each supports.
#include "symm/collectives/reduce/element.h"

#include <array>

#include "base/text.h"

namespace ashlar::symm {
namespace {

struct TypeRow {
  std::string_view name;
  size_t bytes;
};

constexpr std::array<TypeRow, kElementTypeCount> kTypes{{
    {"f32", 4},
    {"f16", 2},
    {"bf16", 2},
    {"f64", 8},
    {"i8", 1},
    {"i16", 2},
    {"i32", 4},
    {"i64", 8},
    {"u8", 1},
    {"u16", 2},
    {"u32", 4},
    {"u64", 8},
}};

constexpr std::array<std::string_view, kReduceOpCount> kOps{"sum", "min", "max", "prod",
                                                            "avg", "and", "or",  "xor"};

bool is_known(ElementType type) { return static_cast<size_t>(type) < kTypes.size(); }
bool is_known(ReduceOp op) { return static_cast<size_t>(op) < kOps.size(); }

}  // namespace

std::string_view name(ElementType type) {
  return is_known(type) ? kTypes[static_cast<size_t>(type)].name : "unknown";
}

std::string_view name(ReduceOp op) {
  return is_known(op) ? kOps[static_cast<size_t>(op)] : "unknown";
}

size_t element_bytes(ElementType type) {
  return is_known(type) ? kTypes[static_cast<size_t>(type)].bytes : 1;
}

bool is_float(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBf16 ||
         type == ElementType::kF64;
}

Status check_reducible(ElementType type, ReduceOp op) {
  if (!is_known(type)) {
    return Status::invalid_argument(text("element type ", static_cast<int>(type),
                                         " does not exist: they are 0 to ", kElementTypeCount - 1));
  }
  if (!is_known(op)) {
    return Status::invalid_argument(text("reduction ", static_cast<int>(op),
                                         " does not exist: they are 0 to ", kReduceOpCount - 1));
  }
  const bool is_bitwise = op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor;
  if (is_bitwise && is_float(type)) {
    return Status::invalid_argument(
        text("reduction ", name(op), " of ", name(type),
             ": only integers have bits to combine; use sum, min, max, prod or "
             "avg"));
  }
  return {};
}

}  // namespace ashlar::symm
