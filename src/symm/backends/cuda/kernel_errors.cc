// SPDX-License-Identifier: Apache-2.0
//
// Decodes results and delegates to the error functions of the host.
#include "symm/backends/cuda/kernel_errors.h"

#include <vector>

#include "symm/collectives/collective_errors.h"
#include "symm/signals/timeout_errors.h"

namespace ashlar::symm {
namespace {

CallSignature decode_signature(const kernels::CallWords& words) {
  return {.code = words.code,
          .bytes = words.bytes,
          .offset_bytes = words.offset_bytes,
          .memory = static_cast<uint32_t>(words.memory)};
}

std::vector<int> decode_missing_ranks(const kernels::KernelResult& result, int world_size) {
  std::vector<int> missing;
  for (int rank = 0; rank < world_size; ++rank) {
    const auto at = static_cast<uint32_t>(rank);
    if ((result.missing[at / 32] >> (at % 32) & 1) != 0) missing.push_back(rank);
  }
  return missing;
}

}  // namespace

Status timeout_status(const kernels::KernelResult& result, const SignalPads& pads) {
  const std::chrono::nanoseconds waited(result.waited_ns);
  const int peer = static_cast<int>(result.rank);
  const int channel = static_cast<int>(result.channel);
  switch (result.action) {
    case kernels::KernelAction::kPut: return put_timeout_error(pads.slots(), peer, channel, waited);
    case kernels::KernelAction::kWait:
      return wait_timeout_error(pads.slots(), peer, channel, waited);
    case kernels::KernelAction::kWaitForValue:
      return counter_timeout_error(pads, peer, channel, result.value, waited);
    default: break;
  }
  return barrier_timeout_error(pads, channel, decode_missing_ranks(result, pads.world_size()),
                               waited);
}

Status mismatch_status(const kernels::KernelResult& result, int rank) {
  const CallSignature called = decode_signature(result.called);
  const CallSignature expected = decode_signature(result.expected);
  const int other = static_cast<int>(result.rank);
  switch (result.kind) {
    case kernels::ResultKind::kUnfinished: return unfinished_call_error(called, expected);
    case kernels::ResultKind::kOutputTooSmall:
      return output_too_small_error(called.bytes, result.value);
    case kernels::ResultKind::kOutOfRange: {
      const auto kind = static_cast<CollectiveKind>(expected.code & 0xFF);
      return kind == CollectiveKind::kExpertAllToAll
                 ? split_out_of_range_error(other, called.bytes, called.offset_bytes)
                 : share_out_of_range_error(other, called);
    }
    default: break;
  }
  const bool has_rows = (expected.code & 0xFF) == static_cast<uint64_t>(CollectiveKind::kAllToAllV);
  return has_rows ? mismatched_rows_error(rank, expected.code >> 8, other)
                  : mismatched_calls_error(expected, other, called);
}

}  // namespace ashlar::symm
