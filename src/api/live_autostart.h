// SPDX-License-Identifier: Apache-2.0
//
// Starts a live endpoint if the environment requests it (ASHLAR_LIVE), so that an unmodified
// program can be observed. Thread safe.
#pragma once

namespace ashlar {

// Every constructor of an allocator calls this; only the first successful call in a process has an
// effect. If the port cannot be opened, for example because it is in use, observers at the Unix
// socket see the reason. Failure to open the port or the socket does not fail the program. Throws
// InvalidArgument if a variable is malformed.
void start_live_endpoint_if_configured();

}  // namespace ashlar
