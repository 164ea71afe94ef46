// SPDX-License-Identifier: Apache-2.0
//
// Formats errors that name the ranks and describe their calls.
#include "symm/collectives/collective_errors.h"

#include "base/text.h"

namespace ashlar::symm {

Status mismatched_calls_error(const CallSignature& first, int rank, const CallSignature& other) {
  return Status::invalid_argument(text("ranks made different calls: rank 0 a ", first.to_string(),
                                       ", rank ", rank, " a ", other.to_string(),
                                       ". Nothing was read or written"));
}

Status mismatched_rows_error(int rank, uint64_t row_bytes, int peer) {
  return Status::invalid_argument(
      text("ranks made different calls: rank ", rank, " an all-to-all-v with rows of ", row_bytes,
           " bytes, rank ", peer, " another call or other memory. Nothing was read or written"));
}

Status unfinished_call_error(const CallSignature& wanted, const CallSignature& waiting) {
  return Status::invalid_argument(text("a ", wanted.to_string(), " cannot begin: a ",
                                       waiting.to_string(),
                                       " has timed out and must be called again first"));
}

Status output_too_small_error(uint64_t capacity_bytes, uint64_t incoming_bytes) {
  return Status::invalid_argument(
      text("out has room for ", capacity_bytes, " bytes, but the ranks send ", incoming_bytes));
}

Status share_out_of_range_error(int peer, const CallSignature& share) {
  return Status::invalid_argument(text("rank ", peer, " sends ", share.bytes, " bytes at ",
                                       share.offset_bytes, ", which is not inside its buffer"));
}

Status split_out_of_range_error(int peer, uint64_t rows, uint64_t begin) {
  return Status::invalid_argument(text("rank ", peer, " sends ", static_cast<int64_t>(rows),
                                       " rows from row ", static_cast<int64_t>(begin),
                                       ", which are not inside its buffer"));
}

}  // namespace ashlar::symm
