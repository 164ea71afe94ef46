// SPDX-License-Identifier: Apache-2.0
//
// Which types of elements there are, and which operations go with them; ashlar/reduction.h names
// both.
#pragma once

#include "ashlar/reduction.h"
#include "ashlar/status.h"

namespace ashlar::symm {

inline constexpr int kElementTypeCount = 12;
inline constexpr int kReduceOpCount = 8;

bool is_float(ElementType type);

// kInvalidArgument: one of the two is none of those above, or bits of a floating-point number are
// asked for.
Status check_reducible(ElementType type, ReduceOp op);

}  // namespace ashlar::symm
