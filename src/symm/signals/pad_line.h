// SPDX-License-Identifier: Apache-2.0
//
// The words through which one rank signals another on one channel. Device kernels access them too,
// so the struct consists of plain words.
#pragma once

#include <cstdint>

namespace ashlar::symm {

// The words through which source s signals the owner of the pad on channel c.
struct alignas(64) PadLine {
  uint32_t signal = 0;  // 0: empty, 1: full
  uint32_t signal_sleepers = 0;
  uint64_t counter = 0;  // never decreases
  // The number of the last barrier that s has reached. On the owner's own line (s is the owner),
  // the number of the last barrier that the owner has completed.
  uint64_t barrier = 0;
  // The CallSignature of the collective that s has entered; its last field is `signature_memory`.
  uint64_t signature[3] = {};
  uint32_t counter_sleepers = 0;
  // On the own line of a leader, this word is not a count: MultiMachineBarrier records the arrival
  // of the leader in it.
  uint32_t barrier_sleepers = 0;
  // The number of sleepers on the slots (k, s) of all of the owner's user pads, for the channels k
  // that equal c modulo the number of channels of the group pad.
  uint32_t user_sleepers = 0;
  uint32_t signature_memory = 0;
};
static_assert(sizeof(PadLine) == 64);

}  // namespace ashlar::symm
