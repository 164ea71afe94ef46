// SPDX-License-Identifier: Apache-2.0
//
// The words that one rank tells another on one channel. Also read and written by kernels of
// devices: nothing but plain words.
#pragma once

#include <cstdint>

namespace ashlar::symm {

// All that source s tells the owner of the pad on channel c.
struct alignas(64) PadLine {
  uint32_t signal = 0;  // 0: empty, 1: full
  uint32_t signal_sleepers = 0;
  uint64_t counter = 0;    // only grows
  uint64_t barrier = 0;    // how many barriers s has reached; on one's own line, has finished
  uint64_t notes[3] = {};  // what s says at the entry of a collective, with noted_memory
  uint32_t counter_sleepers = 0;
  uint32_t barrier_sleepers = 0;  // on one's own line, where nobody sleeps: see Crossing
  uint32_t user_sleepers = 0;  // on slot (c, s) of any user's pad of this rank, c modulo channels
  uint32_t noted_memory = 0;
};
static_assert(sizeof(PadLine) == 64);

}  // namespace ashlar::symm
