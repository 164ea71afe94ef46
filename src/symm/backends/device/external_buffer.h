// SPDX-License-Identifier: Apache-2.0
//
// The memory of a collective that is not the ranks' pieces: a device must reach it, too.
#pragma once

#include <cstddef>

#include "symm/operations/operations.h"

namespace ashlar::symm {

// Where it is, and how much of it there is; null or 0: there is none.
struct ExternalBuffer {
  const char* name = "";
  std::byte* address = nullptr;
  size_t bytes = 0;
};

// REQUIRES: checked.
ExternalBuffer elsewhere_of(const ThresholdAllReduce& each);
ExternalBuffer elsewhere_of(const Reduce& each);
ExternalBuffer elsewhere_of(const ReduceScatter& each);
ExternalBuffer elsewhere_of(const AllGather& each);
ExternalBuffer elsewhere_of(const Broadcast& each);
ExternalBuffer elsewhere_of(const AllToAll& each);
ExternalBuffer elsewhere_of(const AllToAllV& each);
ExternalBuffer elsewhere_of(const MultimemAllReduce& each);
ExternalBuffer elsewhere_of(const MultimemReduce& each);
ExternalBuffer elsewhere_of(const MultimemAllGather& each);
ExternalBuffer elsewhere_of(const MulticastPut& each);

// kInvalidArgument: the device cannot use it, for that reason.
Status not_elsewhere(const ExternalBuffer& other, const Status& reason);

}  // namespace ashlar::symm
