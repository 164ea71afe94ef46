// SPDX-License-Identifier: Apache-2.0
//
// The step of a rendezvous that gives every rank access to the memory of the other ranks.
//
// Handles are file descriptors sent over the channel (the default on one machine), fabric handles
// inside the rendezvous records (on request, or if there is no other way), or transport keys for
// host memory on other machines. If fabric handles were only requested and one rank cannot use
// them, all ranks fall back to descriptors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "symm/memory/peer_table.h"
#include "symm/rendezvous/rendezvous_context.h"
#include "symm/rendezvous/rendezvous_record.h"

namespace ashlar::symm {

// Whether the memory of the group can be exchanged only as fabric handles. True for device memory
// if the group spans several machines or a rank's device cannot export descriptors.
bool needs_fabric(const MemberList& members);

// Returns kInvalidArgument if the group needs fabric handles and a rank has none. The ranks could
// then not access each other's memory.
Status check_handle_types(const std::string& group, const MemberList& members);

// One exchange of memory handles. Every rank calls `add_handles`, gathers the records of all ranks,
// and calls `run`.
class HandleExchange {
 public:
  explicit HandleExchange(const RendezvousContext& context) : context_(context) {}

  // Stores in this rank's record the block's fabric handle, or the reason why there is none, and
  // its transport key if there are remote ranks. `run` returns an error if registering the block
  // with the transport failed.
  void add_handles(const HeapBlock& block, RendezvousRecord& own);
  // Maps the memory of the other ranks. `all` are the records of all ranks. On error nothing stays
  // mapped, and all ranks return the same status.
  Result<PeerTable::Mappings> run(const HeapBlock& block, const std::vector<RendezvousRecord>& all,
                                  Deadline deadline);

 private:
  void export_fabric_handle(const HeapBlock& block, RendezvousRecord& own) const;
  void register_with_transport(const HeapBlock& block, RendezvousRecord& own);

  Result<PeerTable::Mappings> exchange_fabric_handles(const HeapBlock& block,
                                                      const std::vector<RendezvousRecord>& all,
                                                      Deadline deadline);
  Result<std::shared_ptr<MappedMemory>> import_fabric_handle(
      const std::vector<RendezvousRecord>& all, int rank) const;

  Result<PeerTable::Mappings> exchange_descriptors(const HeapBlock& block,
                                                   const std::vector<RendezvousRecord>& all,
                                                   Deadline deadline);
  Status send_descriptors(const HeapBlock& block, uint64_t sequence, Deadline deadline);
  Result<std::vector<PeerTable::Peer>> receive_descriptors(const HeapBlock& block,
                                                           const std::vector<RendezvousRecord>& all,
                                                           uint64_t sequence, Deadline deadline);

  bool is_in_this_process(int rank) const;
  // Returns the memory of a rank in this process.
  Result<std::shared_ptr<MappedMemory>> find_in_process(const HeapBlock& block,
                                                        const std::vector<RendezvousRecord>& all,
                                                        int rank) const;
  Result<std::unique_ptr<const RemoteMemory>> open_remote_regions(
      const std::vector<RendezvousRecord>& all);

  const RendezvousContext& context_;
  // The outcome of registering the block with the transport, and the region if there are remote
  // ranks.
  Status registered_;
  RemoteMemory::LocalRegion local_region_;
};

}  // namespace ashlar::symm
