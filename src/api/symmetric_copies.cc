// SPDX-License-Identifier: Apache-2.0
//
// Implements the copies of handles that are in streams, in pieces or followed by a signal.
// Arguments are checked here.
#include "api/symmetric_impl.h"
#include "api/unwrap.h"
#include "ashlar/symmetric.h"
#include "base/text.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {
namespace {

// Returns the distance from the beginning of the first piece to the end of the last.
Result<size_t> extent_of(const char* name, const StridedCopy& copy, int64_t stride) {
  if (copy.bytes < 0 || copy.count < 0) {
    return Status::invalid_argument(
        text(copy.count, " pieces of ", copy.bytes, " bytes: neither must be negative"));
  }
  if (copy.bytes == 0 || copy.count == 0) return size_t{0};
  if (copy.count > 1 && stride < copy.bytes) {
    return Status::invalid_argument(
        text(name, " is ", stride, ": expected at least the ", copy.bytes, " bytes of a piece"));
  }
  int64_t extent = 0;
  if (__builtin_mul_overflow(copy.count - 1, stride, &extent) ||
      __builtin_add_overflow(extent, copy.bytes, &extent)) {
    return Status::invalid_argument(
        text(copy.count, " pieces with a ", name, " of ", stride, " are more than 2^63 bytes"));
  }
  return static_cast<size_t>(extent);
}

// Checks the arguments of a copy between `caller` and the memory of `rank`.
Result<PieceCopy> checked_copy(const PeerHandle& peers, int rank, std::byte* caller,
                               const StridedCopy& copy) {
  const Result<size_t> at_caller = extent_of("caller_stride", copy, copy.caller_stride);
  if (!at_caller.ok()) return at_caller.status();
  const Result<size_t> at_rank = extent_of("rank_stride", copy, copy.rank_stride);
  if (!at_rank.ok()) return at_rank.status();
  const Result<size_t> offset = peers.offset_in_buffer(rank, copy.offset_bytes, *at_rank);
  if (!offset.ok()) return offset.status();
  if (*at_caller > 0 && caller == nullptr) return Status::invalid_argument("the memory is null");
  const std::byte* buffer = peers.peers().buffer(rank);
  if (buffer != nullptr) {
    const std::span<const std::byte> remote(buffer + *offset, *at_rank);
    const auto begin = reinterpret_cast<uintptr_t>(caller);
    const auto other = reinterpret_cast<uintptr_t>(remote.data());
    if (begin < other + *at_rank && other < begin + *at_caller) {
      return Status::invalid_argument("the source and the destination of the copy overlap");
    }
  }
  return PieceCopy{.is_put = true,
                   .rank = rank,
                   .offset = *offset,
                   .caller = caller,
                   .bytes = static_cast<size_t>(copy.bytes),
                   .count = static_cast<size_t>(copy.count),
                   .rank_stride = static_cast<size_t>(copy.rank_stride),
                   .caller_stride = static_cast<size_t>(copy.caller_stride)};
}

template <typename HandleImpl>
void run_copy(const HandleImpl& impl, const PieceCopy& copy, std::optional<StreamId> stream) {
  unwrap(impl.group->state());
  unwrap(impl.group->operations->copy(
      impl.peers.peers(), copy, {.stream = stream, .timeout = {}, .in_flight = &impl.in_flight}));
}

// Removes `const`: a put does not write to the caller's memory.
std::byte* caller_memory(const void* from) {
  return static_cast<std::byte*>(const_cast<void*>(from));
}

}  // namespace

void Handle::put(int to, std::span<const std::byte> from, int64_t offset_bytes,
                 StreamId stream) const {
  put_strided(to, from.data(), {.bytes = std::ssize(from), .offset_bytes = offset_bytes}, stream);
}

void Handle::get(int from, std::span<std::byte> to, int64_t offset_bytes, StreamId stream) const {
  get_strided(from, to.data(), {.bytes = std::ssize(to), .offset_bytes = offset_bytes}, stream);
}

void Handle::put_strided(int to, const void* from, const StridedCopy& copy,
                         std::optional<StreamId> stream) const {
  run_copy(*impl_, unwrap(checked_copy(impl_->peers, to, caller_memory(from), copy)), stream);
}

void Handle::get_strided(int from, void* to, const StridedCopy& copy,
                         std::optional<StreamId> stream) const {
  PieceCopy request = unwrap(checked_copy(impl_->peers, from, caller_memory(to), copy));
  request.is_put = false;
  run_copy(*impl_, request, stream);
}

// Checks the channel before the copy, so that a failed call has done nothing.
void Handle::put_with_signal(int to, const void* from, const StridedCopy& copy, int channel,
                             Timeout timeout, std::optional<StreamId> stream) const {
  const PieceCopy request = unwrap(checked_copy(impl_->peers, to, caller_memory(from), copy));
  unwrap(impl_->group->check_channel(channel));
  unwrap(deadline_of(timeout).status());
  run_copy(*impl_, request, stream);
  put_signal(to, channel, timeout, stream);
}

void Handle::fence(StreamId stream) const {
  unwrap(impl_->group->state());
  unwrap(impl_->group->operations->fence_stream(stream));
}

}  // namespace ashlar::symm
