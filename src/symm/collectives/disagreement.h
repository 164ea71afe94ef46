// SPDX-License-Identifier: Apache-2.0
//
// What is said when the ranks of a collective do not agree, or one of them cannot go on: the same
// whoever found it out, a thread of the host or a kernel.
#pragma once

#include <cstdint>

#include "ashlar/status.h"
#include "symm/collectives/order_guard.h"

namespace ashlar::symm {

// Rank 0 calls the first, `rank` the other.
Status calls_differ(const Call& first, int rank, const Call& other);
// Of an all-to-all-v, which only knows that `peer` calls something else than `rank` does.
Status rows_differ(int rank, uint64_t row_bytes, int peer);
// `wanted` cannot begin while `waiting` has timed out.
Status unfinished(const Call& wanted, const Call& waiting);
// More comes than `out` has room for.
Status no_room(uint64_t room_bytes, uint64_t coming_bytes);
// A share that is not within the peer's buffer.
Status beyond_buffer(int peer, const Call& share);

}  // namespace ashlar::symm
