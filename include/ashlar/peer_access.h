// SPDX-License-Identifier: Apache-2.0
//
// How a rank reaches another rank's symmetric memory.
#pragma once

namespace ashlar::symm {

enum class PeerAccess {
  kDirect,  // loads and stores
  kRemote,  // put, get and signals only: it is on another machine
};

}  // namespace ashlar::symm
