// SPDX-License-Identifier: Apache-2.0
//
// Provides the Python stack of the calling thread for recorded traces.
#pragma once

#include <memory>

#include "ashlar/history.h"

namespace ashlar::python {

// The provider of this process. Keeps described lines forever. REQUIRES: the GIL is held.
std::shared_ptr<FrameProvider> python_frames();
// After a fork, in the child: replaces the provider, whose lock may be held.
void forget_python_frames();

}  // namespace ashlar::python
