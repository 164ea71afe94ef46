// SPDX-License-Identifier: Apache-2.0
//
// The input or output buffer that a request names in addition to the symmetric range. The device
// must be able to access the buffer.
#pragma once

#include <array>
#include <cstddef>

#include "symm/operations/operations.h"

namespace ashlar::symm {

// An external buffer of a request. A request without an external buffer has a null address or a
// size of 0.
struct ExternalBuffer {
  const char* name = "";
  std::byte* address = nullptr;
  size_t bytes = 0;
};

// Returns the external buffer of a request. REQUIRES: `check` (operations.h) returned ok.
ExternalBuffer external_buffer_of(const ThresholdAllReduce& each);
ExternalBuffer external_buffer_of(const Reduce& each);
ExternalBuffer external_buffer_of(const ReduceScatter& each);
ExternalBuffer external_buffer_of(const AllGather& each);
ExternalBuffer external_buffer_of(const Broadcast& each);
ExternalBuffer external_buffer_of(const AllToAll& each);
ExternalBuffer external_buffer_of(const AllToAllV& each);
ExternalBuffer external_buffer_of(const MultimemAllReduce& each);
ExternalBuffer external_buffer_of(const MultimemReduce& each);
ExternalBuffer external_buffer_of(const MultimemAllGather& each);
ExternalBuffer external_buffer_of(const ExpertAllToAll& each);
ExternalBuffer external_buffer_of(const MulticastPut& each);
// Returns the arrays that the request fills in addition to its external buffer.
std::array<ExternalBuffer, 2> output_arrays_of(const ExpertAllToAll& each);

// Returns kInvalidArgument, with a message that says why the device cannot access the buffer.
Status external_buffer_error(const ExternalBuffer& other, const Status& reason);

}  // namespace ashlar::symm
