// SPDX-License-Identifier: Apache-2.0
//
// Serializes a `Status` so that one rank can send it to another.
#pragma once

#include <string>
#include <string_view>

#include "ashlar/status.h"

namespace ashlar::symm {

// Makes a status of a kind that is known only at run time.
Status make_status(StatusKind kind, std::string message);

// Moves the name of the failed call, if any, into the message: only kind and message are sent.
Status with_call(const Status& status);

// Serializes kind and message. The system's error code and call name stay on this rank.
std::string to_bytes(const Status& status);

// Parses the result of `to_bytes`. Returns kFormat if `bytes` is not a serialized status.
Status parse_status(std::string_view bytes);

}  // namespace ashlar::symm
