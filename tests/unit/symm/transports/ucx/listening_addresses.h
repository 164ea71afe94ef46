// SPDX-License-Identifier: Apache-2.0
//
// The addresses on which this process listens for TCP connections.
#pragma once

#include <string>
#include <vector>

namespace ashlar::symm {

// Returns one address per listening socket of this process, such as "127.0.0.1" or "::".
std::vector<std::string> listening_addresses();

}  // namespace ashlar::symm
