// SPDX-License-Identifier: Apache-2.0
//
// Checks arguments, accesses the memory of local and remote ranks, and makes the synchronization
// steps.
#include "symm/collectives/collective_context.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/align.h"
#include "base/text.h"
#include "symm/collectives/collective_errors.h"
#include "symm/signals/remote_pads.h"

namespace ashlar::symm {
namespace {

Status announce(const CollectiveContext& context, const CallSignature& call, const Limits& limits) {
  for (int peer = 0; peer < context.world_size(); ++peer) {
    if (Status sent = send_signature(context, peer, call, limits); !sent.ok()) return sent;
  }
  RemotePads* remote = context.pads.remote();
  return remote == nullptr ? Status() : remote->quiet(limits.deadline);
}

// Compares the signatures of all ranks. Every rank has received the same signatures, so all ranks
// get the same result.
Status check_calls_match(const CollectiveContext& context) {
  const auto call_of = [&context](int rank) {
    return CallSignature::read_from(context.pads.line(context.rank(), context.channel, rank));
  };
  const CallSignature first = call_of(0);
  for (int rank = 1; rank < context.world_size(); ++rank) {
    if (call_of(rank) == first) continue;
    return mismatched_calls_error(first, rank, call_of(rank));
  }
  return {};
}

}  // namespace

Result<size_t> checked_bytes(const char* what, int64_t a, uint64_t b) {
  uint64_t product = 0;
  if (a < 0) return Status::invalid_argument(text(what, " is ", a, ": must not be negative"));
  if (__builtin_mul_overflow(static_cast<uint64_t>(a), b, &product) ||
      product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Status::invalid_argument(
        text(what, " is ", a, ": times ", b, " bytes is more than 2^63"));
  }
  return static_cast<size_t>(product);
}

Status check_range(const CollectiveContext& context, const SymmetricRange& range, size_t bytes,
                   size_t alignment) {
  if (Status wrong = context.pads.slots().check_channel(context.channel); !wrong.ok()) return wrong;
  if (range.bases.size() != static_cast<size_t>(context.world_size())) {
    return Status::invalid_argument(text(range.bases.size(), " buffers for ", context.world_size(),
                                         " ranks: expected one each"));
  }
  for (int rank = 0; rank < context.world_size(); ++rank) {
    const std::byte* base = range.bases[static_cast<size_t>(rank)];
    if (base == nullptr && (range.remote == nullptr || !range.remote->contains(rank))) {
      return Status::unsupported(text("rank ", context.rank(), " cannot reach the buffer of rank ",
                                      rank, ", neither by pointer nor by a transport"));
    }
    if (!is_aligned(reinterpret_cast<uintptr_t>(base), alignment)) {
      return Status::invalid_argument(
          text("the buffer of rank ", rank, " is not aligned to ", alignment, " bytes"));
    }
  }
  if (range.offset_bytes < 0) {
    return Status::invalid_argument(text("offset ", range.offset_bytes, ": must not be negative"));
  }
  const auto offset = static_cast<uint64_t>(range.offset_bytes);
  if (offset > range.buffer_bytes || bytes > range.buffer_bytes - offset) {
    return Status::invalid_argument(text(bytes, " bytes at offset ", offset,
                                         " are not within a buffer of ", range.buffer_bytes,
                                         " bytes"));
  }
  if (!is_aligned(offset, alignment)) {
    return Status::invalid_argument(
        text("offset ", offset, " is not a multiple of the element's ", alignment, " bytes"));
  }
  return {};
}

Status check_disjoint(const char* name, const std::byte* other, size_t bytes, size_t alignment,
                      std::span<const std::byte> own) {
  if (bytes == 0) return {};
  if (other == nullptr) return Status::invalid_argument(text(name, " is null"));
  const auto begin = reinterpret_cast<uintptr_t>(other);
  if (!is_aligned(begin, alignment)) {
    return Status::invalid_argument(
        text(name, " is not aligned to the element's ", alignment, " bytes"));
  }
  const auto own_begin = reinterpret_cast<uintptr_t>(own.data());
  if (begin < own_begin + own.size() && own_begin < begin + bytes) {
    return Status::invalid_argument(
        text(name, " overlaps this rank's buffer, which other ranks access"));
  }
  return {};
}

Status SymmetricRange::read(int rank, size_t begin, std::span<std::byte> into,
                            Deadline deadline) const {
  if (is_remote(rank)) {
    const uint64_t at = remote_begin + static_cast<uint64_t>(offset_bytes) + begin;
    return remote->get(rank, at, into, deadline);
  }
  copy_bytes(into.data(), address(rank) + begin, into.size());
  return {};
}

Status SymmetricRange::write(int rank, size_t begin, std::span<const std::byte> from,
                             Deadline deadline) const {
  if (is_remote(rank)) {
    const uint64_t at = remote_begin + static_cast<uint64_t>(offset_bytes) + begin;
    return remote->put(rank, at, from, deadline);
  }
  copy_bytes(address(rank) + begin, from.data(), from.size());
  return {};
}

Status SymmetricRange::flush(Deadline deadline) const {
  return remote == nullptr ? Status() : remote->quiet(deadline);
}

Status send_signature(const CollectiveContext& context, int peer, const CallSignature& call,
                      const Limits& limits) {
  RemotePads* remote = context.pads.remote();
  if (remote != nullptr && remote->contains(peer)) {
    PadLine line;
    call.write_to(line);
    return remote->put_signature(peer, context.channel, line, limits.deadline);
  }
  call.write_to(context.pads.line(peer, context.channel, context.rank()));
  return {};
}

CollectiveRunner::Step announce_step(const CollectiveContext& context, const CallSignature& call,
                                     const Limits& limits) {
  return [&context, &call, &limits](CollectiveRunner::Progress& progress) -> Status {
    if (Status sent = announce(context, call, limits); !sent.ok()) return sent;
    if (Status met = barrier(context.pads, context.channel, limits); !met.ok()) return met;
    progress.outcome = check_calls_match(context);
    return {};
  };
}

CollectiveRunner::Step barrier_step(const CollectiveContext& context, const Limits& limits) {
  return [&context, &limits](CollectiveRunner::Progress& progress) -> Status {
    if (progress.has_left) return {};
    Status met = barrier(context.pads, context.channel, limits);
    progress.has_left = met.ok() && !progress.outcome.ok();
    return met;
  };
}

}  // namespace ashlar::symm
