// SPDX-License-Identifier: Apache-2.0
//
// The step of a rendezvous that sets up multicast for a block.
//
// All ranks act together, in five phases: create and export, distribute the handle, import and
// join, bind and map, commit. The ranks agree on the outcome of creation, of distribution and
// import together, and of mapping. If one rank failed, all ranks continue without multicast, with
// the same reason, and undo their steps in reverse order. No rank may give up alone, because the
// drivers of the other ranks would wait for it indefinitely.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "symm/backends/multicast/multicast.h"
#include "symm/rendezvous/rendezvous_context.h"
#include "symm/rendezvous/rendezvous_record.h"

namespace ashlar::symm {

class MulticastSetup {
 public:
  explicit MulticastSetup(const RendezvousContext& context) : context_(context) {}

  // Sets up multicast for `block`. `all` are the records of all ranks. Returns an error only if the
  // group has failed; if multicast is not available, the result contains the reason. REQUIRES: all
  // ranks have mapped the block.
  Result<MulticastSetupResult> run(const HeapBlock& block, const std::vector<RendezvousRecord>& all,
                                   Deadline deadline);

 private:
  // These two functions distribute rank 0's handle to all ranks.
  Result<MulticastHandle> broadcast_fabric_handle(const FabricHandle& created, Deadline deadline);
  Result<MulticastHandle> broadcast_descriptor(std::shared_ptr<const UniqueFd> created,
                                               Deadline deadline);
  Result<MulticastSetupResult> continue_without_multicast(const Status& reason) const;

  const RendezvousContext& context_;
};

}  // namespace ashlar::symm
