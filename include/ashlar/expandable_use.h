// SPDX-License-Identifier: Apache-2.0
//
// An expandable segment, as far as it shows: many addresses, some of them with memory behind them.
#pragma once

#include <cstddef>

#include "ashlar/types.h"

namespace ashlar {

struct ExpandableUse {
  StreamId stream{};
  bool is_small = false;    // it holds blocks up to 1 MiB
  AddressRange reserved{};  // its addresses
  size_t mapped_bytes = 0;  // how many of them have memory
};

}  // namespace ashlar
