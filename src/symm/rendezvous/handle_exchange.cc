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

bool Circle::is_on_one_machine() const {
  const std::vector<JoinRecord>& all = roster_.records;
  return std::ranges::all_of(all, [&](const auto& each) { return each.host == all[0].host; });
}

// The host's memory has ways of its own to other machines.
bool Circle::needs_fabric() const {
  const std::vector<JoinRecord>& all = roster_.records;
  if (all[0].device == DeviceUuid{}) return false;
  return !is_on_one_machine() ||
         std::ranges::any_of(all, [](const auto& each) { return !each.no_fd.empty(); });
}

std::string Circle::why_no_fabric() const {
  const std::vector<JoinRecord>& all = roster_.records;
  const bool is_wanted =
      std::ranges::any_of(all, [](const auto& each) { return each.wants_fabric; });
  if (!is_wanted && !needs_fabric()) return "nobody asked for it";
  return why_not_all("not all ranks have fabric handles", seat_.world_size,
                     [&](int rank) { return all[rank].no_fabric; });
}

Status Circle::check_ways() const {
  if (!needs_fabric()) return {};
  const std::string why = why_no_fabric();
  if (why.empty()) return {};
  const std::vector<JoinRecord>& all = roster_.records;
  std::vector<int> far;
  for (const JoinRecord& each : all) {
    if (each.host != all[0].host || !each.no_fd.empty()) far.push_back(each.seat.rank);
  }
  const bool is_far = !is_on_one_machine();
  return Status::invalid_argument(text(
      name_ranks(far), " of group ", options_.name,
      is_far ? (far.size() == 1 ? " is" : " are") : (far.size() == 1 ? " has" : " have"),
      is_far ? " on another machine than rank 0" : " no descriptors to hand over",
      ", and memory of back end ", all[0].backend, " then travels by fabric handles alone: ", why));
}

void Circle::offer(const Block& block, Brought& own) const {
  own.no_fabric = why_no_fabric();
  if (!own.no_fabric.empty()) return;
  const Result<FabricHandle> handle = arena_.backend().export_fabric(*block.memory);
  own.no_fabric = with_call(handle.status()).message();
  if (handle.ok()) own.fabric.assign(handle->begin(), handle->end());
}

// --- by fabric handles, or by descriptors -------------------------------------------------------

Result<Peers::Handed> Circle::hand_round(const Block& block, const std::vector<Brought>& all,
                                         Sharing own, Deadline deadline) {
  std::string reason = why_not_all("not all ranks gave a fabric handle", seat_.world_size,
                                   [&](int rank) { return all[rank].no_fabric; });
  if (reason.empty()) {
    Result<Peers::Handed> handed = hand_by_fabric(block, all, deadline);
    if (handed.ok() || needs_fabric() || failure_->has_happened()) return handed;
    reason = handed.status().message();
  }
  if (needs_fabric()) return Status::unsupported(reason);
  Result<Peers::Handed> handed = hand_by_descriptor(block, all, std::move(own), deadline);
  if (handed.ok()) handed->no_fabric = std::move(reason);
  return handed;
}

// The handles are there already. What was mapped goes if one rank could not.
Result<Peers::Handed> Circle::hand_by_fabric(const Block& block, const std::vector<Brought>& all,
                                             Deadline deadline) {
  reach(Phase::kHandingOver);
  reach(Phase::kMapping);
  Peers::Handed handed;
  Status own_outcome;
  for (int rank = 0; rank < seat_.world_size && own_outcome.ok(); ++rank) {
    Result<std::shared_ptr<Memory>> memory =
        is_of_this_process(rank) ? at_hand(block, all, rank) : import_from(all, rank);
    own_outcome = memory.status();
    if (memory.ok()) handed.peers.push_back({peer_access(rank), *std::move(memory)});
  }
  reach(Phase::kAgreeing);
  if (Status agreed = exchange_.agree(own_outcome, deadline); !agreed.ok()) return agreed;
  return handed;
}

Result<std::shared_ptr<Memory>> Circle::import_from(const std::vector<Brought>& all, int rank) {
  FabricHandle handle{};
  std::memcpy(handle.data(), all[rank].fabric.data(), handle.size());
  Result<std::shared_ptr<Memory>> memory =
      arena_.backend().import_fabric(handle, all[rank].block_bytes);
  if (memory.ok()) return memory;
  return make_status(memory.status().kind(), text("the fabric handle of rank ", rank, ": ",
                                                  with_call(memory.status()).message()));
}

// --- by descriptors -----------------------------------------------------------------------------

Result<Peers::Handed> Circle::hand_by_descriptor(const Block& block,
                                                 const std::vector<Brought>& all, Sharing own,
                                                 Deadline deadline) {
  Status own_outcome = std::move(own.outcome);
  const uint64_t sequence = exchange_.sequence();
  reach(Phase::kHandingOver);
  if (Status handed = hand_over(block, sequence, deadline); own_outcome.ok()) own_outcome = handed;
  reach(Phase::kMapping);
  Peers::Handed handed;
  if (own_outcome.ok()) {
    Result<std::vector<Peers::Peer>> taken = take(block, all, sequence, deadline);
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
Status Circle::hand_over(const Block& block, uint64_t sequence, Deadline deadline) {
  Status outcome;
  for (int rank = 0; rank < seat_.world_size; ++rank) {
    if (!links_->reaches(rank)) continue;
    UniqueFd fd;
    if (outcome.ok()) {
      Result<UniqueFd> exported = arena_.backend().export_fd(*block.memory);
      outcome = exported.status();
      if (exported.ok()) fd = *std::move(exported);
    }
    const Status sent = links_->send(rank, sequence, fd.get(), deadline);
    if (outcome.ok()) outcome = sent;
  }
  return outcome;
}

Result<std::vector<Peers::Peer>> Circle::take(const Block& block, const std::vector<Brought>& all,
                                              uint64_t sequence, Deadline deadline) {
  std::vector<Peers::Peer> peers(all.size());
  for (int rank = 0; rank < seat_.world_size; ++rank) {
    Peers::Peer& peer = peers[rank];
    peer.access = peer_access(rank);
    if (links_->reaches(rank)) {
      Result<UniqueFd> got = links_->receive(rank, sequence, deadline);
      if (!got.ok()) return got.status();
      if (!got->valid()) return Status::peer_lost(text("rank ", rank, " handed nothing over"));
      Result<std::shared_ptr<Memory>> mapped =
          arena_.backend().import_fd(*std::move(got), all[rank].block_bytes);
      if (!mapped.ok()) return mapped.status();
      peer.memory = *std::move(mapped);
    } else if (peer.access == PeerAccess::kDirect) {
      Result<std::shared_ptr<Memory>> adopted = at_hand(block, all, rank);
      if (!adopted.ok()) return adopted.status();
      peer.memory = *std::move(adopted);
    }
  }
  return peers;
}

bool Circle::is_of_this_process(int rank) const {
  return roster_.records[rank].process == roster_.records[seat_.rank].process;
}

// Of a rank of this process.
Result<std::shared_ptr<Memory>> Circle::at_hand(const Block& block, const std::vector<Brought>& all,
                                                int rank) {
  if (rank == seat_.rank) return block.memory;
  if (!is_of_this_process(rank)) {
    return Status::format(text("nothing leads to the memory of rank ", rank,
                               ", which is not of this process: its record is wrong"));
  }
  std::shared_ptr<Memory> lent = arena_.process().borrow(all[rank].lent_as);
  if (lent == nullptr) return Status::format(text("rank ", rank, "'s memory is gone"));
  if (lent->bytes() < all[rank].block_bytes) {
    return Status::format(text("rank ", rank, " brought ", all[rank].block_bytes,
                               " bytes, and lent memory of ", lent->bytes()));
  }
  return arena_.backend().adopt(std::move(lent));
}

// A key is another rank's word: what it opens is held to what the rank brought.
Result<std::unique_ptr<const RemoteMemory>> Circle::take_remote(RemoteMemory::Own own,
                                                                const std::vector<Brought>& all) {
  std::vector<std::unique_ptr<RemoteRegion>> regions(all.size());
  for (int rank = 0; rank < seat_.world_size; ++rank) {
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
