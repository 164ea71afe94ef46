// SPDX-License-Identifier: Apache-2.0
//
// Out-of-line destructors, so that the vtables are exported once.
#include "symm/transports/transport.h"

namespace ashlar::symm {

Region::~Region() = default;
RemoteRegion::~RemoteRegion() = default;
Endpoint::~Endpoint() = default;
Transport::~Transport() = default;

}  // namespace ashlar::symm
