// SPDX-License-Identifier: Apache-2.0
//
// A blow at an exact point of an operation, with no help of the library: memory that the operation
// is going to touch is protected, and whoever touches it gets a signal.
#pragma once

#include <cstddef>
#include <span>

namespace ashlar::symm {

enum class Touch { kReading, kWriting };

// At the first touch of that kind this process gets `signal`, and the memory is as it was: who was
// only stopped goes on with the very instruction. Of whole pages, so give it memory that nobody
// else uses. One in each process, for its lifetime. Fails the process where it cannot be laid.
void lay_tripwire(std::span<std::byte> memory, Touch touch, int signal);

}  // namespace ashlar::symm
