// SPDX-License-Identifier: Apache-2.0
//
// Sentences.
#include "symm/collectives/disagreement.h"

#include "base/text.h"

namespace ashlar::symm {

Status calls_differ(const Call& first, int rank, const Call& other) {
  return Status::invalid_argument(text("the ranks call different things: rank 0 a ",
                                       first.to_string(), ", rank ", rank, " a ", other.to_string(),
                                       "; nothing was read or written"));
}

Status rows_differ(int rank, uint64_t row_bytes, int peer) {
  return Status::invalid_argument(text(
      "the ranks call different things: rank ", rank, " an all-to-all-v of rows of ", row_bytes,
      " bytes, rank ", peer, " something else, or with other memory; nothing was read or written"));
}

Status unfinished(const Call& wanted, const Call& waiting) {
  return Status::invalid_argument(text("a ", wanted.to_string(), " cannot begin: a ",
                                       waiting.to_string(),
                                       " has timed out and waits to be called again"));
}

Status no_room(uint64_t room_bytes, uint64_t coming_bytes) {
  return Status::invalid_argument(
      text("out has room for ", room_bytes, " bytes, but ", coming_bytes, " come from all ranks"));
}

Status beyond_buffer(int peer, const Call& share) {
  return Status::invalid_argument(text("rank ", peer, " offers ", share.bytes, " bytes at ",
                                       share.offset_bytes, ", which are not within its buffer"));
}

}  // namespace ashlar::symm
