// SPDX-License-Identifier: Apache-2.0
//
// Starts a live endpoint if the environment requests it (ASHLAR_LIVE), so that an unmodified
// program can be observed. Thread safe.
#pragma once

namespace ashlar {

// Every constructor of an allocator calls this; only the first call in a process has an effect. An
// endpoint that cannot be opened, for example because the port is in use, is reported to observers
// and does not fail the program. Throws InvalidArgument if the variable is malformed.
void start_live_endpoint_if_configured();

}  // namespace ashlar
