// SPDX-License-Identifier: Apache-2.0
//
// Throws PyTorch's own OutOfMemoryError from a library that was built without PyTorch.
#pragma once

#include <string>

namespace ashlar::torch {

// Throws c10::OutOfMemoryError, which Python sees as torch.OutOfMemoryError, using symbols of the
// PyTorch libraries that are loaded in this process. Returns if they are not loaded or lack a
// symbol.
void throw_as_pytorch(const std::string& message);

}  // namespace ashlar::torch
