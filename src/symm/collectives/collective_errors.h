// SPDX-License-Identifier: Apache-2.0
//
// Errors of collectives in which the ranks make different calls or a rank cannot continue. The
// messages are the same for collectives of host threads and of kernels.
#pragma once

#include <cstdint>

#include "ashlar/status.h"
#include "symm/collectives/collective_runner.h"

namespace ashlar::symm {

// Returns the error for a collective in which rank 0 made the call `first`, and `rank` made the
// call `other`.
Status mismatched_calls_error(const CallSignature& first, int rank, const CallSignature& other);
// Returns the error for an all-to-all-v in which `rank` passed rows of `row_bytes`, but `peer`
// passed another row size or other memory, or made another call.
Status mismatched_rows_error(int rank, uint64_t row_bytes, int peer);
// Returns the error for the call `wanted`, which cannot start because the call `waiting` has timed
// out and must be repeated first.
Status unfinished_call_error(const CallSignature& wanted, const CallSignature& waiting);
// Returns the error for an all-to-all-v whose `out` has room for `capacity_bytes`, although the
// ranks send `incoming_bytes`.
Status output_too_small_error(uint64_t capacity_bytes, uint64_t incoming_bytes);
// Returns the error for an all-to-all-v in which `peer` announced a share that is not inside its
// buffer.
Status share_out_of_range_error(int peer, const CallSignature& share);
// Returns the error for an exchange of experts in which `peer` sends `rows` rows from row `begin`
// of its buffer, which are not inside the buffer. Both numbers are int64_t in the peer's memory.
Status split_out_of_range_error(int peer, uint64_t rows, uint64_t begin);

}  // namespace ashlar::symm
