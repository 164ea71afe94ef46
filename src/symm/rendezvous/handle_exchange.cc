// SPDX-License-Identifier: Apache-2.0
//
// How memory gets from rank to rank in a rendezvous: as descriptors over the channel, which is the
// way on one machine; or as fabric handles, which are bytes and travel in the records, where that
// is asked for or where there is no other way. Ranks that only asked for it go on with descriptors,
// all of them, if one could not.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "symm/rendezvous/communicator.h"
#include "symm/rendezvous/rendezvous_record.h"

namespace ashlar::symm {

// --- which way ----------------------------------------------------------------------------------

bool Communicator::is_on_one_machine() const {
  const std::vector<JoinRecord>& all = member_list_.records;
  return std::ranges::all_of(all, [&](const auto& each) { return each.host == all[0].host; });
}

// The host's memory has ways of its own to other machines.
bool Communicator::needs_fabric() const {
  const std::vector<JoinRecord>& all = member_list_.records;
  if (all[0].device == DeviceUuid{}) return false;
  return !is_on_one_machine() ||
         std::ranges::any_of(all, [](const auto& each) { return !each.no_fd.empty(); });
}

std::string Communicator::why_no_fabric() const {
  const std::vector<JoinRecord>& all = member_list_.records;
  const bool is_wanted =
      std::ranges::any_of(all, [](const auto& each) { return each.wants_fabric; });
  if (!is_wanted && !needs_fabric()) return "nobody asked for it";
  return why_not_all("not all ranks have fabric handles", rank_info_.world_size,
                     [&](int rank) { return all[rank].no_fabric; });
}

Status Communicator::check_handle_types() const {
  if (!needs_fabric()) return {};
  const std::string why = why_no_fabric();
  if (why.empty()) return {};
  const std::vector<JoinRecord>& all = member_list_.records;
  std::vector<int> far;
  for (const JoinRecord& each : all) {
    if (each.host != all[0].host || !each.no_fd.empty()) far.push_back(each.rank_info.rank);
  }
  const bool is_far = !is_on_one_machine();
  return Status::invalid_argument(text(
      name_ranks(far), " of group ", options_.name,
      is_far ? (far.size() == 1 ? " is" : " are") : (far.size() == 1 ? " has" : " have"),
      is_far ? " on another machine than rank 0" : " no descriptors to hand over",
      ", and memory of back end ", all[0].backend, " then travels by fabric handles alone: ", why));
}

void Communicator::offer(const HeapBlock& block, RendezvousRecord& own) const {
  own.no_fabric = why_no_fabric();
  if (!own.no_fabric.empty()) return;
  const Result<FabricHandle> handle = heap_.backend().export_fabric(*block.memory);
  own.no_fabric = with_call(handle.status()).message();
  if (handle.ok()) own.fabric.assign(handle->begin(), handle->end());
}

// --- by fabric handles, or by descriptors -------------------------------------------------------

Result<PeerTable::Handed> Communicator::hand_round(const HeapBlock& block,
                                                   const std::vector<RendezvousRecord>& all,
                                                   Sharing own, Deadline deadline) {
  std::string reason = why_not_all("not all ranks gave a fabric handle", rank_info_.world_size,
                                   [&](int rank) { return all[rank].no_fabric; });
  if (reason.empty()) {
    Result<PeerTable::Handed> handed = hand_by_fabric(block, all, deadline);
    if (handed.ok() || needs_fabric() || failure_->has_happened()) return handed;
    reason = handed.status().message();
  }
  if (needs_fabric()) return Status::unsupported(reason);
  Result<PeerTable::Handed> handed = hand_by_descriptor(block, all, std::move(own), deadline);
  if (handed.ok()) handed->no_fabric = std::move(reason);
  return handed;
}

// The handles are there already. What was mapped goes if one rank could not.
Result<PeerTable::Handed> Communicator::hand_by_fabric(const HeapBlock& block,
                                                       const std::vector<RendezvousRecord>& all,
                                                       Deadline deadline) {
  reach(Phase::kHandingOver);
  reach(Phase::kMapping);
  PeerTable::Handed handed;
  Status own_outcome;
  for (int rank = 0; rank < rank_info_.world_size && own_outcome.ok(); ++rank) {
    Result<std::shared_ptr<MappedMemory>> memory =
        is_of_this_process(rank) ? at_hand(block, all, rank) : import_from(all, rank);
    own_outcome = memory.status();
    if (memory.ok()) handed.peers.push_back({peer_access(rank), *std::move(memory)});
  }
  reach(Phase::kAgreeing);
  if (Status agreed = exchange_.agree(own_outcome, deadline); !agreed.ok()) return agreed;
  return handed;
}

Result<std::shared_ptr<MappedMemory>> Communicator::import_from(
    const std::vector<RendezvousRecord>& all, int rank) {
  FabricHandle handle{};
  std::memcpy(handle.data(), all[rank].fabric.data(), handle.size());
  Result<std::shared_ptr<MappedMemory>> memory =
      heap_.backend().import_fabric(handle, all[rank].block_bytes);
  if (memory.ok()) return memory;
  return make_status(memory.status().kind(), text("the fabric handle of rank ", rank, ": ",
                                                  with_call(memory.status()).message()));
}

// --- by descriptors -----------------------------------------------------------------------------

Result<PeerTable::Handed> Communicator::hand_by_descriptor(const HeapBlock& block,
                                                           const std::vector<RendezvousRecord>& all,
                                                           Sharing own, Deadline deadline) {
  Status own_outcome = std::move(own.outcome);
  const uint64_t sequence = exchange_.sequence();
  reach(Phase::kHandingOver);
  if (Status handed = hand_over(block, sequence, deadline); own_outcome.ok()) own_outcome = handed;
  reach(Phase::kMapping);
  PeerTable::Handed handed;
  if (own_outcome.ok()) {
    Result<std::vector<PeerTable::Peer>> taken = take(block, all, sequence, deadline);
    own_outcome = taken.status();
    if (taken.ok()) handed.peers = *std::move(taken);
  }
  if (own_outcome.ok() && remotes_ != nullptr) {
    Result<std::unique_ptr<const RemoteMemory>> taken = take_remote(std::move(own.remote), all);
    own_outcome = taken.status();
    if (taken.ok()) handed.remote = *std::move(taken);
  }
  reach(Phase::kAgreeing);
  if (Status agreed = exchange_.agree(own_outcome, deadline); !agreed.ok()) return agreed;
  return handed;
}

// Whoever cannot export says so with an empty hand: nobody is to wait for it.
Status Communicator::hand_over(const HeapBlock& block, uint64_t sequence, Deadline deadline) {
  Status outcome;
  for (int rank = 0; rank < rank_info_.world_size; ++rank) {
    if (!connections_->reaches(rank)) continue;
    UniqueFd fd;
    if (outcome.ok()) {
      Result<UniqueFd> exported = heap_.backend().export_fd(*block.memory);
      outcome = exported.status();
      if (exported.ok()) fd = *std::move(exported);
    }
    const Status sent = connections_->send(rank, sequence, fd.get(), deadline);
    if (outcome.ok()) outcome = sent;
  }
  return outcome;
}

Result<std::vector<PeerTable::Peer>> Communicator::take(const HeapBlock& block,
                                                        const std::vector<RendezvousRecord>& all,
                                                        uint64_t sequence, Deadline deadline) {
  std::vector<PeerTable::Peer> peers(all.size());
  for (int rank = 0; rank < rank_info_.world_size; ++rank) {
    PeerTable::Peer& peer = peers[rank];
    peer.access = peer_access(rank);
    if (connections_->reaches(rank)) {
      Result<UniqueFd> got = connections_->receive(rank, sequence, deadline);
      if (!got.ok()) return got.status();
      if (!got->valid()) return Status::peer_lost(text("rank ", rank, " handed nothing over"));
      Result<std::shared_ptr<MappedMemory>> mapped =
          heap_.backend().import_fd(*std::move(got), all[rank].block_bytes);
      if (!mapped.ok()) return mapped.status();
      peer.memory = *std::move(mapped);
    } else if (peer.access == PeerAccess::kDirect) {
      Result<std::shared_ptr<MappedMemory>> adopted = at_hand(block, all, rank);
      if (!adopted.ok()) return adopted.status();
      peer.memory = *std::move(adopted);
    }
  }
  return peers;
}

bool Communicator::is_of_this_process(int rank) const {
  return member_list_.records[rank].process == member_list_.records[rank_info_.rank].process;
}

// Of a rank of this process.
Result<std::shared_ptr<MappedMemory>> Communicator::at_hand(
    const HeapBlock& block, const std::vector<RendezvousRecord>& all, int rank) {
  if (rank == rank_info_.rank) return block.memory;
  if (!is_of_this_process(rank)) {
    return Status::format(text("nothing leads to the memory of rank ", rank,
                               ", which is not of this process: its record is wrong"));
  }
  std::shared_ptr<MappedMemory> lent = heap_.process().find_memory(all[rank].registry_id);
  if (lent == nullptr) return Status::format(text("rank ", rank, "'s memory is gone"));
  if (lent->bytes() < all[rank].block_bytes) {
    return Status::format(text("rank ", rank, " brought ", all[rank].block_bytes,
                               " bytes, and lent memory of ", lent->bytes()));
  }
  return heap_.backend().adopt(std::move(lent));
}

// A key is another rank's word: what it opens is held to what the rank brought.
Result<std::unique_ptr<const RemoteMemory>> Communicator::take_remote(
    RemoteMemory::Own own, const std::vector<RendezvousRecord>& all) {
  std::vector<std::unique_ptr<RemoteRegion>> regions(all.size());
  for (int rank = 0; rank < rank_info_.world_size; ++rank) {
    if (!remotes_->contains(rank)) continue;
    if (all[rank].key.empty()) {
      return Status::peer_lost(text("rank ", rank, " shared nothing"));
    }
    Result<std::unique_ptr<RemoteRegion>> region = remotes_->endpoint(rank).open(all[rank].key);
    if (!region.ok()) return region.status();
    if ((*region)->bytes() != all[rank].block_bytes) {
      return Status::format(text("rank ", rank, " of group ", options_.name, " shared ",
                                 (*region)->bytes(), " bytes, and brought ",
                                 all[rank].block_bytes));
    }
    regions[rank] = *std::move(region);
  }
  return std::unique_ptr<const RemoteMemory>(
      std::make_unique<RemoteMemory>(remotes_, std::move(own), std::move(regions)));
}

}  // namespace ashlar::symm
