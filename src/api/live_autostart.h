// SPDX-License-Identifier: Apache-2.0
//
// Starts a live endpoint if the environment requests it (ASHLAR_LIVE), so that an unmodified
// program can be observed. Thread safe.
#pragma once

namespace ashlar {

// Every constructor of an allocator calls this; only the first successful call in a process has an
// effect. If the port cannot be opened, for example because it is in use, observers at the Unix
// socket see the reason. Monitoring must not stop a program: if a variable is malformed, prints a
// warning to standard error, and if the socket cannot be opened, does nothing.
void start_live_endpoint_if_configured();

}  // namespace ashlar
