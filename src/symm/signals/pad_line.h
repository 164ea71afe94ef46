// SPDX-License-Identifier: Apache-2.0
//
// The words that one rank writes to another on one channel. Device kernels access them too, so the
// struct consists of plain words.
#pragma once

#include <cstdint>

namespace ashlar::symm {

// The words that source s writes to the owner of the pad on channel c.
struct alignas(64) PadLine {
  uint32_t signal = 0;  // 0: empty, 1: full
  uint32_t signal_sleepers = 0;
  uint64_t counter = 0;    // monotonic
  uint64_t barrier = 0;    // barriers that s has reached; on the owner's own line, completed
  uint64_t notes[3] = {};  // arguments of the collective that s has entered, with noted_memory
  uint32_t counter_sleepers = 0;
  uint32_t barrier_sleepers = 0;  // on the owner's own line: see MultiMachineBarrier
  uint32_t user_sleepers = 0;     // on slot (c modulo channels, s) of any user's pad of the owner
  uint32_t noted_memory = 0;
};
static_assert(sizeof(PadLine) == 64);

}  // namespace ashlar::symm
