// SPDX-License-Identifier: Apache-2.0
//
// What others derive from.
#include "symm/transports/transport.h"

namespace ashlar::symm {

Region::~Region() = default;
RemoteRegion::~RemoteRegion() = default;
Endpoint::~Endpoint() = default;
Transport::~Transport() = default;

}  // namespace ashlar::symm
