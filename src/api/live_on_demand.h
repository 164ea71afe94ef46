// SPDX-License-Identifier: Apache-2.0
//
// Showing the process's allocators because the environment asks for it (ASHLAR_LIVE), so that a
// program need not be changed to be watched. Thread safe.
#pragma once

namespace ashlar {

// Called when an allocator is made; does something the first time in each process. What cannot be
// had (a port that is taken) ends nobody's work: it is told to whoever looks. Throws
// InvalidArgument: the environment makes no sense.
void show_if_asked();

}  // namespace ashlar
