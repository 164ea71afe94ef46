// SPDX-License-Identifier: Apache-2.0
//
// The memory of a collective that is not the ranks' pieces: a device must reach it, too.
#pragma once

#include <cstddef>

#include "symm/operations/operations.h"

namespace ashlar::symm {

// Where it is, and how much of it there is; null or 0: there is none.
struct Elsewhere {
  const char* name = "";
  std::byte* address = nullptr;
  size_t bytes = 0;
};

// REQUIRES: checked.
Elsewhere elsewhere_of(const ChosenAllReduce& each);
Elsewhere elsewhere_of(const Reduce& each);
Elsewhere elsewhere_of(const ReduceScatter& each);
Elsewhere elsewhere_of(const AllGather& each);
Elsewhere elsewhere_of(const Broadcast& each);
Elsewhere elsewhere_of(const AllToAll& each);
Elsewhere elsewhere_of(const AllToAllV& each);
Elsewhere elsewhere_of(const MultimemAllReduce& each);
Elsewhere elsewhere_of(const MultimemReduce& each);
Elsewhere elsewhere_of(const MultimemAllGather& each);
Elsewhere elsewhere_of(const Spread& each);

// kInvalidArgument: the device cannot use it, for that reason.
Status not_elsewhere(const Elsewhere& other, const Status& reason);

}  // namespace ashlar::symm
