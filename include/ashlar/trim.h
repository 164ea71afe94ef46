// SPDX-License-Identifier: Apache-2.0
//
// Giving cached memory back to the device, as far as asked for.
#pragma once

namespace ashlar {

// Whether the host may wait for work that still uses freed memory.
enum class TrimWait {
  kNever,    // such memory stays; once the work is done, the next trim finds it
  kForWork,  // the host waits for the streams that used it, and for pending frees
};

struct TrimOptions {
  TrimWait wait = TrimWait::kNever;
};

}  // namespace ashlar
