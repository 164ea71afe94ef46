// SPDX-License-Identifier: Apache-2.0
//
// Starts a live endpoint if the environment requests it (ASHLAR_LIVE), so that an unmodified
// program can be observed. Thread safe.
#pragma once

namespace ashlar {

// Called by every constructor of an allocator; acts once per process. An endpoint that cannot be
// opened, for example because the port is in use, is reported to observers and does not fail the
// program. Throws InvalidArgument if the variable is malformed.
void start_live_endpoint_if_configured();

}  // namespace ashlar
