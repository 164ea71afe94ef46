// SPDX-License-Identifier: Apache-2.0
//
// Sentences, from words.
#include "symm/backends/cuda/endings.h"

#include <vector>

#include "symm/collectives/disagreement.h"
#include "symm/signals/timeout_errors.h"

namespace ashlar::symm {
namespace {

Call call_in(const kernels::CallWords& words) {
  return {.code = words.code,
          .bytes = words.bytes,
          .offset_bytes = words.offset_bytes,
          .memory = static_cast<uint32_t>(words.memory)};
}

std::vector<int> missing_in(const kernels::Ending& ending, int world_size) {
  std::vector<int> missing;
  for (int rank = 0; rank < world_size; ++rank) {
    const auto at = static_cast<uint32_t>(rank);
    if ((ending.missing[at / 32] >> (at % 32) & 1) != 0) missing.push_back(rank);
  }
  return missing;
}

}  // namespace

Status status_of_timeout(const kernels::Ending& ending, const SignalPads& pads) {
  const std::chrono::nanoseconds waited(ending.waited_ns);
  const int peer = static_cast<int>(ending.rank);
  const int channel = static_cast<int>(ending.channel);
  switch (ending.act) {
    case kernels::Act::kPut: return put_timeout(pads.slots(), peer, channel, waited);
    case kernels::Act::kWait: return wait_timeout(pads.slots(), peer, channel, waited);
    case kernels::Act::kWaitForValue:
      return counter_timeout(pads, peer, channel, ending.value, waited);
    default: break;
  }
  return barrier_timeout(pads, channel, missing_in(ending, pads.world_size()), waited);
}

Status status_of_disagreement(const kernels::Ending& ending, int rank) {
  const Call called = call_in(ending.called);
  const Call expected = call_in(ending.expected);
  const int other = static_cast<int>(ending.rank);
  switch (ending.kind) {
    case kernels::End::kUnfinished: return unfinished(called, expected);
    case kernels::End::kNoRoom: return no_room(called.bytes, ending.value);
    case kernels::End::kBeyond: return beyond_buffer(other, called);
    default: break;
  }
  const bool has_rows = (expected.code & 0xFF) == static_cast<uint64_t>(Operation::kAllToAllV);
  return has_rows ? rows_differ(rank, expected.code >> 8, other)
                  : calls_differ(expected, other, called);
}

}  // namespace ashlar::symm
