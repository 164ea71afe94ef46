// SPDX-License-Identifier: Apache-2.0
//
// The state of a communicator that the steps of a rendezvous use.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "symm/channel/peer_connections.h"
#include "symm/core/failure.h"
#include "symm/core/phase_times.h"
#include "symm/core/rank_info.h"
#include "symm/membership/exchange.h"
#include "symm/membership/member_list.h"
#include "symm/memory/rank_heap.h"
#include "symm/transports/remote_ranks.h"

namespace ashlar::symm {

// Borrowed from the communicator. Valid while its collective mutex is held.
struct RendezvousContext {
  RankHeap& heap;
  const std::string& group;  // for error messages
  RankInfo rank_info;
  const MemberList& members;
  const Failure& failure;
  Exchange& exchange;
  PeerConnections& connections;
  // Null if no rank is reached through the transport.
  const std::shared_ptr<const RemoteRanks>& remotes;
  std::function<void(Phase)> begin_phase;
};

}  // namespace ashlar::symm
