// SPDX-License-Identifier: Apache-2.0
//
// Provides the Python stack of the calling thread for recorded traces.
#pragma once

#include <memory>

#include "ashlar/history.h"

namespace ashlar::python {

// Returns the frame provider of this process, which keeps descriptions of lines forever. REQUIRES:
// the GIL is held.
std::shared_ptr<FrameProvider> python_frames();
// Called in the child after a fork. Replaces the provider, because another thread of the parent may
// have held its lock.
void reset_python_frames();

}  // namespace ashlar::python
