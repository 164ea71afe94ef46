// SPDX-License-Identifier: Apache-2.0
//
// The stacks of Python's threads, for histories.
#pragma once

#include <memory>

#include "ashlar/history.h"

namespace ashlar::python {

// The one of this process: lines of programs are few, and kept for good. REQUIRES: the GIL is held.
std::shared_ptr<FrameProvider> python_frames();
// In the child of a fork: another one, whose lock is free.
void forget_python_frames();

}  // namespace ashlar::python
