// SPDX-License-Identifier: Apache-2.0
//
// Waiting and error reporting in kernels. Kernels never trap, since that would make the device
// unusable for the whole process.
#pragma once

#include "symm/backends/cuda/kernels/arguments.h"
#include "symm/backends/cuda/kernels/intrinsics.h"

namespace ashlar::symm::kernels {

enum class WaitResult : uint32_t { kDone, kTimeout, kFailed, kSkipped };

struct WaitLimits {
  const uint32_t* has_failed;  // StatusBoard::has_failed
  uint64_t began_ns;
  uint64_t timeout_ns;  // 0 for no timeout
};

// Calls `attempt()` until it succeeds or a limit is reached. Makes at least one attempt, even after
// the timeout.
template <typename Attempt>
ASHLAR_ON_DEVICE WaitResult wait_until(const Attempt& attempt, const WaitLimits& limits) {
  // The failure flag is in host memory, so poll it rarely.
  constexpr uint32_t kTurnsBetweenPolls = 16;
  for (uint32_t turn = 0;; ++turn) {
    if (attempt()) return WaitResult::kDone;
    if (turn % kTurnsBetweenPolls == 0) {
      if (load(limits.has_failed) != 0) return WaitResult::kFailed;
      // Signed, because the clock of another multiprocessor may be slightly behind.
      const auto waited_ns = static_cast<int64_t>(now_ns() - limits.began_ns);
      const bool is_late =
          limits.timeout_ns != 0 && waited_ns >= static_cast<int64_t>(limits.timeout_ns);
      if (is_late) return WaitResult::kTimeout;
    }
    back_off(turn);
  }
}

ASHLAR_ON_DEVICE StatusBoard* board_of(const CommonArguments& common) {
  return host_memory<StatusBoard>(common.board);
}
ASHLAR_ON_DEVICE DeviceState* state_of(const CommonArguments& common) {
  return device_memory<DeviceState>(common.state);
}

// Whether stream work of the group has failed and the error has not been reported yet. Reads
// `reported_count` first, because an older `error_claim` with a newer `reported_count` would look
// like an error.
ASHLAR_ON_DEVICE bool has_unreported_error(const CommonArguments& common) {
  const uint32_t reported_count = load_acquire(&board_of(common)->reported_count);
  return reported_count != load(&state_of(common)->error_claim);
}

ASHLAR_ON_DEVICE void write_result(KernelResult* to, const KernelResult& result, uint32_t state) {
  to->kind = result.kind;
  to->action = result.action;
  to->rank = result.rank;
  to->channel = result.channel;
  to->waited_ns = result.waited_ns;
  to->value = result.value;
  to->called = result.called;
  to->expected = result.expected;
  for (uint32_t i = 0; i < kMaxRanks / 32; ++i) to->missing[i] = result.missing[i];
  store_release(&to->state, state);
}

// Writes the result to the record of the call or, for stream work, to the status board. On the
// board, the first error stays until the host has reported it.
ASHLAR_ON_DEVICE void report(const CommonArguments& common, const KernelResult& result) {
  if (common.record != 0) {
    write_result(&host_memory<CallRecord>(common.record)->result, result, 1);
    return;
  }
  if (result.kind == ResultKind::kSkipped) return;
  StatusBoard* board = board_of(common);
  const uint32_t reported_count = load(&board->reported_count);
  if (compare_exchange(&state_of(common)->error_claim, reported_count, reported_count + 1)) {
    write_result(&board->result, result, reported_count + 1);
  }
}

}  // namespace ashlar::symm::kernels
