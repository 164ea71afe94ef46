// SPDX-License-Identifier: Apache-2.0
//
// The value of roundup_power2_divisions: PyTorch's rounding of requests up to one of a few steps
// between two powers of two. Pure functions.
//
//   "8"                       8 steps for every size
//   "[256:1,512:2,>:8]"       by request size in MiB: no rounding below 512, two steps for
//                             [512, 1024), eight above
//
// The first entry also applies to all smaller sizes. Sizes that no entry covers are not rounded:
// those between entries, and those above the last entry without ">". 0 and 1 both mean no rounding.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ashlar/options.h"
#include "config/option_values.h"

namespace ashlar {

using RoundupDivisions = std::array<uint32_t, AllocatorOptions::kRoundupSlotCount>;

Result<RoundupDivisions> parse_roundup_divisions(const OptionInput& input);

// Returns compact text that parse_roundup_divisions converts back to `divisions`. REQUIRES: at
// least one slot is not 0.
std::string roundup_divisions_text(const RoundupDivisions& divisions);

}  // namespace ashlar
