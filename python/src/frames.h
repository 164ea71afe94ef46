// The stacks of Python's threads, for histories.
#pragma once

#include <memory>

#include "ashlar/history.h"

namespace ashlar::python {

// The one of this process: lines of programs are few, and kept for good.
std::shared_ptr<FrameProvider> python_frames();

}  // namespace ashlar::python
