// SPDX-License-Identifier: Apache-2.0
//
// Checks of element types and reductions, which ashlar/symmetric_types.h declares.
#pragma once

#include "ashlar/status.h"
#include "ashlar/symmetric_types.h"

namespace ashlar::symm {

inline constexpr int kElementTypeCount = 12;
inline constexpr int kReduceOpCount = 8;

bool is_float(ElementType type);

// kInvalidArgument if either value is unknown, or for a bitwise reduction of floating-point
// numbers.
Status check_reducible(ElementType type, ReduceOp op);

}  // namespace ashlar::symm
