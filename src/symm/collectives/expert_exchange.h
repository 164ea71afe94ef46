// SPDX-License-Identifier: Apache-2.0
//
// All-to-all of rows between ranks that have several experts each, such as the experts of a
// mixture-of-experts model. The ranks read the numbers of rows from symmetric memory when the
// collective runs, so the host need not know them. The rules of reductions.h apply.
//
// With W ranks and E experts per rank, each rank sends W * E slices of rows and receives as many:
//
//   order       slice of a sender              slice of the receiver
//   kByRank     index E * receiver + expert    index W * expert + sender
//   kByExpert   index W * expert + receiver    index E * sender + expert
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "symm/collectives/collective_context.h"

namespace ashlar::symm {

// The order of the slices that a rank sends. The slices that it receives have the other order.
enum class SliceOrder : uint8_t { kByRank, kByExpert };

struct ExpertAllToAll {
  SymmetricRange range{};  // the rows, up to the end of the buffer
  SliceOrder order = SliceOrder::kByRank;
  int64_t row_bytes = 0;
  int64_t experts_per_rank = 1;
  // The slices that a rank receives for one expert (kByRank) or from one rank (kByExpert) begin at
  // a multiple of this number of rows, and take at least this number. 0: no rows are left out.
  int64_t alignment_rows = 0;
  // The position of the splits in every rank's buffer: one int64_t per slice, the number of its
  // rows. If `has_offsets`, they are followed by one int64_t per slice, the index of its first row.
  // Otherwise, the groups follow each other.
  int64_t splits_offset_bytes = 0;
  bool has_offsets = false;
  std::byte* out = nullptr;  // receives the rows
  int64_t out_bytes = 0;     // capacity of `out`
  // Outputs, one per slice: the number of its rows, and the index of its first row in `out`.
  int64_t* out_splits = nullptr;
  int64_t* out_offsets = nullptr;
};

// The number of slices that a rank sends or receives, at most.
inline constexpr int64_t kMaxSlices = 65536;
// No valid split or offset is larger, so the sum over all slices cannot overflow.
inline constexpr uint64_t kMaxRowNumber = uint64_t{1} << 47;

// If the incoming rows do not fit `out`, this rank gets kInvalidArgument with both sizes, and
// `out_splits` and `out_offsets` are valid. If the splits of a rank are invalid, the receivers of
// the rows get kInvalidArgument, which names the rank. The other ranks succeed.
Status exchange_experts(const CollectiveContext& context, const ExpertAllToAll& request,
                        const Limits& limits);
// Performs the checks of arguments that need no memory of other ranks.
Status check_request(const CollectiveContext& context, const ExpertAllToAll& request);
CallSignature signature_of(const ExpertAllToAll& request);

// Returns the number of rows between the start of the range and the end of the buffer.
inline uint64_t row_capacity(const ExpertAllToAll& request) {
  return (request.range.buffer_bytes - static_cast<uint64_t>(request.range.offset_bytes)) /
         static_cast<uint64_t>(request.row_bytes);
}
// REQUIRES: check_request returned ok.
inline size_t slice_count(const CollectiveContext& context, const ExpertAllToAll& request) {
  return static_cast<size_t>(context.world_size()) * static_cast<size_t>(request.experts_per_rank);
}

}  // namespace ashlar::symm
