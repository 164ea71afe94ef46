// SPDX-License-Identifier: Apache-2.0
//
// The value of roundup_power2_divisions, PyTorch's way of rounding requests up to one of a few
// steps between two powers of two. Pure functions.
//
//   "8"                       8 steps for every size
//   "[256:1,512:2,>:8]"       by the size of the request, in MiB: one step for all sizes up to and
//                             including [256, 512), two for [512, 1024), eight above
//
// The first entry also counts for all smaller sizes. Sizes between entries that none names, and
// those above the last without ">", are not rounded so. 0 and 1 both mean: not rounded so.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ashlar/options.h"
#include "config/option_values.h"

namespace ashlar {

using RoundupDivisions = std::array<uint32_t, AllocatorOptions::kRoundupSlotCount>;

Result<RoundupDivisions> read_roundup_divisions(const Reading& reading);

// The shortest form that reads back to the same. REQUIRES: not all 0, which has no form.
std::string roundup_divisions_text(const RoundupDivisions& divisions);

}  // namespace ashlar
