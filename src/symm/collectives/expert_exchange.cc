// SPDX-License-Identifier: Apache-2.0
//
// Each rank reads the splits of all ranks after the first barrier, computes where its incoming rows
// are, and copies them.
#include "symm/collectives/expert_exchange.h"

#include <algorithm>
#include <limits>

#include "base/align.h"
#include "base/text.h"
#include "symm/collectives/collective_errors.h"

namespace ashlar::symm {
namespace {

constexpr int64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();

// A slice that this rank receives. All numbers are rows.
struct IncomingSlice {
  int sender = 0;
  uint64_t from = 0;
  uint64_t rows = 0;
  uint64_t to = 0;
};

Status check_between(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return Status::invalid_argument(text(name, " is ", value, ": expected ", least, " to ", most));
}

Status check_numbers(const CollectiveContext& context, const ExpertAllToAll& request) {
  Status wrong = check_between("row_bytes", request.row_bytes, 1, kMaxUint32);
  if (!wrong.ok()) return wrong;
  wrong = check_between("experts_per_rank", request.experts_per_rank, 1,
                        std::min<int64_t>(65535, kMaxSlices / context.world_size()));
  if (!wrong.ok()) return wrong;
  return check_between("alignment_rows", request.alignment_rows, 0, kMaxUint32);
}

size_t splits_bytes(const CollectiveContext& context, const ExpertAllToAll& request) {
  return slice_count(context, request) * sizeof(int64_t) * (request.has_offsets ? 2 : 1);
}

// Reads the splits of all ranks and finds the slices for this rank.
class SliceFinder {
 public:
  SliceFinder(const CollectiveContext& context, const ExpertAllToAll& request)
      : context_(context),
        request_(request),
        ranks_(static_cast<size_t>(context.world_size())),
        experts_(static_cast<size_t>(request.experts_per_rank)),
        splits_range_(request.range) {
    splits_range_.offset_bytes = request.splits_offset_bytes;
    splits_.resize(splits_bytes(context, request) / sizeof(uint64_t));
    slices_.resize(ranks_ * experts_);
  }

  const std::vector<IncomingSlice>& slices() const { return slices_; }

  // Finds the slices that `sender` sends to this rank. Sets `outcome` if one of them is not inside
  // the sender's buffer; returns an error if the sender cannot be reached.
  Status find(int sender, Deadline deadline, Status& outcome) {
    const std::span<uint64_t> all(splits_);
    Status got = splits_range_.read(sender, 0, std::as_writable_bytes(all), deadline);
    if (!got.ok()) return got;
    for (size_t expert = 0; expert < experts_ && outcome.ok(); ++expert) {
      const size_t sent = index_in(request_.order, context_.rank(), expert);
      IncomingSlice slice{.sender = sender, .rows = splits_[sent]};
      const bool is_valid = find_begin(sent, slice.from);
      const uint64_t capacity = row_capacity(request_);
      if (!is_valid || slice.rows > capacity || slice.from > capacity - slice.rows) {
        outcome = split_out_of_range_error(sender, slice.rows, slice.from);
        return {};
      }
      slices_[index_in(other_order(), sender, expert)] = slice;
    }
    return {};
  }

  // Computes where the slices are written. Returns the number of rows that `out` must have.
  uint64_t place() {
    const size_t run = request_.order == SliceOrder::kByRank ? ranks_ : experts_;
    const auto alignment = static_cast<uint64_t>(request_.alignment_rows);
    uint64_t to = 0;
    uint64_t needed = 0;
    for (size_t first = 0; first < slices_.size(); first += run) {
      const uint64_t begin = to;
      for (size_t i = first; i < first + run; ++i) {
        slices_[i].to = to;
        to += slices_[i].rows;
        if (slices_[i].rows > 0) needed = to;
        request_.out_splits[i] = static_cast<int64_t>(slices_[i].rows);
        request_.out_offsets[i] = static_cast<int64_t>(slices_[i].to);
      }
      if (alignment > 0) {
        const uint64_t steps = (to - begin + alignment - 1) / alignment;
        to = begin + std::max<uint64_t>(steps, 1) * alignment;
      }
    }
    return needed;
  }

 private:
  SliceOrder other_order() const {
    return request_.order == SliceOrder::kByRank ? SliceOrder::kByExpert : SliceOrder::kByRank;
  }
  size_t index_in(SliceOrder order, int rank, size_t expert) const {
    const auto other = static_cast<size_t>(rank);
    return order == SliceOrder::kByRank ? other * experts_ + expert : expert * ranks_ + other;
  }
  // Sets `begin` to the first row of slice `sent` of the sender. Returns false if it is invalid.
  bool find_begin(size_t sent, uint64_t& begin) const {
    if (request_.has_offsets) {
      begin = splits_[ranks_ * experts_ + sent];
      return true;
    }
    uint64_t seen = 0;
    begin = 0;
    for (size_t i = 0; i < sent; ++i) {
      seen |= splits_[i];
      begin += splits_[i];
    }
    return seen < kMaxRowNumber;
  }

  const CollectiveContext& context_;
  const ExpertAllToAll& request_;
  const size_t ranks_;
  const size_t experts_;
  SymmetricRange splits_range_;
  std::vector<uint64_t> splits_;  // of one sender
  std::vector<IncomingSlice> slices_;
};

Status receive(const CollectiveContext& context, const ExpertAllToAll& request,
               const std::vector<IncomingSlice>& slices, const Limits& limits) {
  const auto row_bytes = static_cast<uint64_t>(request.row_bytes);
  // The ranks start with different slices, so that they do not all read from the same peer.
  const size_t first = slices.size() / static_cast<size_t>(context.world_size()) *
                       static_cast<size_t>(context.rank());
  for (size_t i = 0; i < slices.size(); ++i) {
    const IncomingSlice& slice = slices[(first + i) % slices.size()];
    std::byte* to = request.out + slice.to * row_bytes;
    if (slice.rows == 0) continue;
    Status got = request.range.read(slice.sender, slice.from * row_bytes,
                                    {to, slice.rows * row_bytes}, limits.deadline);
    if (!got.ok()) return got;
  }
  return {};
}

}  // namespace

CallSignature signature_of(const ExpertAllToAll& request) {
  const uint64_t code = CallSignature::encode(CollectiveKind::kExpertAllToAll) |
                        (request.order == SliceOrder::kByExpert ? uint64_t{1} << 8 : 0) |
                        (request.has_offsets ? uint64_t{1} << 9 : 0) |
                        static_cast<uint64_t>(request.experts_per_rank) << 16 |
                        static_cast<uint64_t>(request.row_bytes) << 32;
  return make_signature(request.range, code, static_cast<size_t>(request.splits_offset_bytes));
}

Status check_request(const CollectiveContext& context, const ExpertAllToAll& request) {
  if (Status wrong = check_numbers(context, request); !wrong.ok()) return wrong;
  if (Status wrong = check_range(context, request.range, 0, 1); !wrong.ok()) return wrong;
  SymmetricRange splits = request.range;
  splits.offset_bytes = request.splits_offset_bytes;
  Status wrong = check_range(context, splits, splits_bytes(context, request), alignof(int64_t));
  if (!wrong.ok()) return Status::invalid_argument(text("splits: ", wrong.message()));
  const Result<size_t> capacity = checked_bytes("out_bytes", request.out_bytes, 1);
  if (!capacity.ok()) return capacity.status();
  const auto begin =
      static_cast<size_t>(std::min(request.range.offset_bytes, request.splits_offset_bytes));
  const std::span<const std::byte> own(
      request.range.bases[static_cast<size_t>(context.rank())] + begin,
      request.range.buffer_bytes - begin);
  wrong = check_disjoint("out", request.out, *capacity, 1, own);
  const size_t bytes = slice_count(context, request) * sizeof(int64_t);
  for (const auto& [name, list] :
       {std::pair("out_splits", request.out_splits), {"out_offsets", request.out_offsets}}) {
    if (!wrong.ok()) return wrong;
    wrong = check_disjoint(name, reinterpret_cast<const std::byte*>(list), bytes, alignof(int64_t),
                           own);
  }
  return wrong;
}

Status exchange_experts(const CollectiveContext& context, const ExpertAllToAll& request,
                        const Limits& limits) {
  if (Status wrong = check_request(context, request); !wrong.ok()) return wrong;
  const CallSignature call = signature_of(request);
  SliceFinder finder(context, request);  // allocates before other ranks depend on this one
  const auto work = [&](CollectiveRunner::Progress& progress) -> Status {
    for (int rank = 0; rank < context.world_size() && progress.outcome.ok(); ++rank) {
      if (Status got = finder.find(rank, limits.deadline, progress.outcome); !got.ok()) return got;
    }
    if (!progress.outcome.ok()) return {};
    const uint64_t needed_rows = finder.place();
    const auto row_bytes = static_cast<uint64_t>(request.row_bytes);
    const auto out_bytes = static_cast<uint64_t>(request.out_bytes);
    if (needed_rows > out_bytes / row_bytes) {
      uint64_t needed = 0;
      if (__builtin_mul_overflow(needed_rows, row_bytes, &needed)) needed = UINT64_MAX;
      progress.outcome = output_too_small_error(out_bytes, needed);
      return {};
    }
    return receive(context, request, finder.slices(), limits);
  };
  return context.runner.run(
      call, limits.deadline,
      {announce_step(context, call, limits), work, barrier_step(context, limits)});
}

}  // namespace ashlar::symm
