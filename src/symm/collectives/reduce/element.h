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

// Returns kInvalidArgument if `type` or `op` is unknown, or if `op` is bitwise and `type` is a
// floating-point type.
Status check_reducible(ElementType type, ReduceOp op);

}  // namespace ashlar::symm
