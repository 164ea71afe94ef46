// SPDX-License-Identifier: Apache-2.0
//
// Serializes a `Status` so that one rank can send it to another.
#pragma once

#include <string>
#include <string_view>

#include "ashlar/status.h"

namespace ashlar::symm {

// Returns a status of a kind that is known only at run time.
Status make_status(StatusKind kind, std::string message);

// Returns `status` with the name of the failed call, if any, at the start of the message, because
// `to_bytes` drops the call.
Status with_call(const Status& status);

// Serializes the kind and the message, which is cut off after 4000 bytes. Drops the system's error
// code and the name of the failed call.
std::string to_bytes(const Status& status);

// Returns the status that `to_bytes` serialized, or kFormat if `bytes` is not a serialized status.
Status parse_status(std::string_view bytes);

}  // namespace ashlar::symm
