// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's own OutOfMemoryError, thrown by a library that was built without PyTorch.
#pragma once

#include <string>

namespace ashlar::torch {

// Throws c10::OutOfMemoryError, which Python sees as torch.OutOfMemoryError, by what PyTorch's
// libraries in this process show. Returns where they are not, or do not show what is needed.
void throw_as_pytorch(const std::string& message);

}  // namespace ashlar::torch
