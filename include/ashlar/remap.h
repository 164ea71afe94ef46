// SPDX-License-Identifier: Apache-2.0
//
// Who wants to know which addresses have memory behind them: a registration with a network card, or
// with another library, must be made after memory is mapped and undone before it is unmapped.
#pragma once

#include <functional>

#include "ashlar/types.h"

namespace ashlar {

// Called with no lock held, one call at a time, in the order of things; must not throw. They may
// allocate and free, but not pause or resume. A range that is unmapped is one that was mapped,
// exactly. Whole segments (of a pool's own source, of pools that do not split, of devices without
// virtual memory) are not told: they do not move, and trackers see them come and go.
struct RemapObserver {
  // Work that uses it is done. Until this returns, the memory is there.
  std::function<void(AddressRange range)> before_unmap{};
  // Before any allocation that uses it returns. The same memory may be mapped elsewhere, too.
  std::function<void(AddressRange range)> after_map{};
};

}  // namespace ashlar
