// SPDX-License-Identifier: Apache-2.0
//
// Exchanges memory as fabric handles, file descriptors or transport keys.
#include "symm/rendezvous/handle_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "symm/core/status_codec.h"

namespace ashlar::symm {
namespace {

// Returns why this group does not use fabric handles, according to the join records of its ranks,
// or an empty string if it does.
std::string no_fabric_reason(const MemberList& members) {
  const std::vector<JoinRecord>& all = members.records;
  const bool is_requested =
      std::ranges::any_of(all, [](const auto& each) { return each.wants_fabric; });
  if (!is_requested && !needs_fabric(members)) return "not requested";
  return unsupported_reason("not all ranks have fabric handles", static_cast<int>(all.size()),
                            [&](int rank) { return all[rank].no_fabric_reason; });
}

}  // namespace

// Host memory never needs fabric handles: other machines reach it through the transport.
bool needs_fabric(const MemberList& members) {
  const std::vector<JoinRecord>& all = members.records;
  if (all[0].device == DeviceUuid{}) return false;
  return !members.is_single_machine() ||
         std::ranges::any_of(all, [](const auto& each) { return !each.no_fd_reason.empty(); });
}

Status check_handle_types(const std::string& group, const MemberList& members) {
  if (!needs_fabric(members)) return {};
  const std::string reason = no_fabric_reason(members);
  if (reason.empty()) return {};
  const std::vector<JoinRecord>& all = members.records;
  std::vector<int> unreachable;
  for (const JoinRecord& each : all) {
    if (each.host != all[0].host || !each.no_fd_reason.empty()) {
      unreachable.push_back(each.rank_info.rank);
    }
  }
  const bool is_remote = !members.is_single_machine();
  const bool is_one = unreachable.size() == 1;
  return Status::invalid_argument(
      text(name_ranks(unreachable), " of group ", group,
           is_remote ? (is_one ? " is" : " are") : (is_one ? " has" : " have"),
           is_remote ? " on another machine than rank 0" : " no descriptors to exchange",
           ", so memory of back end ", all[0].backend, " requires fabric handles: ", reason));
}

void HandleExchange::add_handles(const HeapBlock& block, RendezvousRecord& own) {
  export_fabric_handle(block, own);
  register_with_transport(block, own);
}

void HandleExchange::export_fabric_handle(const HeapBlock& block, RendezvousRecord& own) const {
  own.no_fabric_reason = no_fabric_reason(context_.members);
  if (!own.no_fabric_reason.empty()) return;
  const Result<FabricHandle> handle = context_.heap.backend().export_fabric(*block.memory);
  own.no_fabric_reason = with_call(handle.status()).message();
  if (handle.ok()) own.fabric.assign(handle->begin(), handle->end());
}

void HandleExchange::register_with_transport(const HeapBlock& block, RendezvousRecord& own) {
  if (context_.remotes == nullptr) return;
  const std::span<std::byte> memory(block.memory->base(), block.memory->bytes());
  Result<std::unique_ptr<Region>> region = context_.remotes->transport().share(memory);
  registered_ = region.status();
  if (!region.ok()) return;
  own.key = (*region)->key();
  local_region_ = {block.memory, *std::move(region)};
}

Result<PeerTable::Mappings> HandleExchange::run(const HeapBlock& block,
                                                const std::vector<RendezvousRecord>& all,
                                                Deadline deadline) {
  std::string reason =
      unsupported_reason("not all ranks exported a fabric handle", context_.rank_info.world_size,
                         [&](int rank) { return all[rank].no_fabric_reason; });
  const bool is_required = needs_fabric(context_.members);
  if (reason.empty()) {
    Result<PeerTable::Mappings> mappings = exchange_fabric_handles(block, all, deadline);
    if (mappings.ok() || is_required || context_.failure.has_happened()) return mappings;
    reason = mappings.status().message();
  }
  if (is_required) return Status::unsupported(reason);
  Result<PeerTable::Mappings> mappings = exchange_descriptors(block, all, deadline);
  if (mappings.ok()) mappings->no_fabric_reason = std::move(reason);
  return mappings;
}

// Maps the memory behind the fabric handles, which arrived with the records. If one rank fails to
// map, all ranks unmap.
Result<PeerTable::Mappings> HandleExchange::exchange_fabric_handles(
    const HeapBlock& block, const std::vector<RendezvousRecord>& all, Deadline deadline) {
  context_.begin_phase(Phase::kSendingHandles);
  context_.begin_phase(Phase::kMapping);
  PeerTable::Mappings mappings;
  Status outcome;
  for (int rank = 0; rank < context_.rank_info.world_size && outcome.ok(); ++rank) {
    Result<std::shared_ptr<MappedMemory>> memory = is_in_this_process(rank)
                                                       ? find_in_process(block, all, rank)
                                                       : import_fabric_handle(all, rank);
    outcome = memory.status();
    if (!memory.ok()) continue;
    mappings.peers.push_back(
        {context_.members.access(context_.rank_info.rank, rank), *std::move(memory)});
  }
  context_.begin_phase(Phase::kAgreeing);
  if (Status agreed = context_.exchange.agree(outcome, deadline); !agreed.ok()) return agreed;
  return mappings;
}

Result<std::shared_ptr<MappedMemory>> HandleExchange::import_fabric_handle(
    const std::vector<RendezvousRecord>& all, int rank) const {
  FabricHandle handle{};
  std::memcpy(handle.data(), all[rank].fabric.data(), handle.size());
  Result<std::shared_ptr<MappedMemory>> memory =
      context_.heap.backend().import_fabric(handle, all[rank].block_bytes);
  if (memory.ok()) return memory;
  return make_status(memory.status().kind(), text("the fabric handle of rank ", rank, ": ",
                                                  with_call(memory.status()).message()));
}

Result<PeerTable::Mappings> HandleExchange::exchange_descriptors(
    const HeapBlock& block, const std::vector<RendezvousRecord>& all, Deadline deadline) {
  Status outcome = std::move(registered_);
  const uint64_t sequence = context_.exchange.sequence();
  context_.begin_phase(Phase::kSendingHandles);
  if (Status sent = send_descriptors(block, sequence, deadline); outcome.ok()) outcome = sent;
  context_.begin_phase(Phase::kMapping);
  PeerTable::Mappings mappings;
  if (outcome.ok()) {
    Result<std::vector<PeerTable::Peer>> peers =
        receive_descriptors(block, all, sequence, deadline);
    outcome = peers.status();
    if (peers.ok()) mappings.peers = *std::move(peers);
  }
  if (outcome.ok() && context_.remotes != nullptr) {
    Result<std::unique_ptr<const RemoteMemory>> remote = open_remote_regions(all);
    outcome = remote.status();
    if (remote.ok()) mappings.remote = *std::move(remote);
  }
  context_.begin_phase(Phase::kAgreeing);
  if (Status agreed = context_.exchange.agree(outcome, deadline); !agreed.ok()) return agreed;
  return mappings;
}

// A rank that cannot export sends a message without a descriptor, so that no peer waits for it.
Status HandleExchange::send_descriptors(const HeapBlock& block, uint64_t sequence,
                                        Deadline deadline) {
  Status outcome;
  for (int rank = 0; rank < context_.rank_info.world_size; ++rank) {
    if (!context_.connections.reaches(rank)) continue;
    UniqueFd fd;
    if (outcome.ok()) {
      Result<UniqueFd> exported = context_.heap.backend().export_fd(*block.memory);
      outcome = exported.status();
      if (exported.ok()) fd = *std::move(exported);
    }
    const Status sent = context_.connections.send(rank, sequence, fd.get(), deadline);
    if (outcome.ok()) outcome = sent;
  }
  return outcome;
}

Result<std::vector<PeerTable::Peer>> HandleExchange::receive_descriptors(
    const HeapBlock& block, const std::vector<RendezvousRecord>& all, uint64_t sequence,
    Deadline deadline) {
  std::vector<PeerTable::Peer> peers(all.size());
  for (int rank = 0; rank < context_.rank_info.world_size; ++rank) {
    PeerTable::Peer& peer = peers[rank];
    peer.access = context_.members.access(context_.rank_info.rank, rank);
    if (context_.connections.reaches(rank)) {
      Result<UniqueFd> fd = context_.connections.receive(rank, sequence, deadline);
      if (!fd.ok()) return fd.status();
      if (!fd->valid()) return Status::peer_lost(text("rank ", rank, " sent no descriptor"));
      Result<std::shared_ptr<MappedMemory>> mapped =
          context_.heap.backend().import_fd(*std::move(fd), all[rank].block_bytes);
      if (!mapped.ok()) return mapped.status();
      peer.memory = *std::move(mapped);
    } else if (peer.access == PeerAccess::kDirect) {
      Result<std::shared_ptr<MappedMemory>> adopted = find_in_process(block, all, rank);
      if (!adopted.ok()) return adopted.status();
      peer.memory = *std::move(adopted);
    }
  }
  return peers;
}

bool HandleExchange::is_in_this_process(int rank) const {
  const std::vector<JoinRecord>& all = context_.members.records;
  return all[rank].process == all[context_.rank_info.rank].process;
}

Result<std::shared_ptr<MappedMemory>> HandleExchange::find_in_process(
    const HeapBlock& block, const std::vector<RendezvousRecord>& all, int rank) const {
  if (rank == context_.rank_info.rank) return block.memory;
  if (!is_in_this_process(rank)) {
    return Status::format(
        text("the memory of rank ", rank, " is not reachable: its join record is inconsistent"));
  }
  std::shared_ptr<MappedMemory> memory = context_.heap.process().find_memory(all[rank].registry_id);
  if (memory == nullptr) {
    return Status::format(text("the memory of rank ", rank, " has been destroyed"));
  }
  if (memory->bytes() < all[rank].block_bytes) {
    return Status::format(text("rank ", rank, " announced ", all[rank].block_bytes,
                               " bytes, but its memory has ", memory->bytes()));
  }
  return context_.heap.backend().adopt(std::move(memory));
}

// Opens the regions of remote ranks. The keys are not trusted: the size of each region must equal
// the size in the rank's record.
Result<std::unique_ptr<const RemoteMemory>> HandleExchange::open_remote_regions(
    const std::vector<RendezvousRecord>& all) {
  std::vector<std::unique_ptr<RemoteRegion>> regions(all.size());
  for (int rank = 0; rank < context_.rank_info.world_size; ++rank) {
    if (!context_.remotes->contains(rank)) continue;
    if (all[rank].key.empty()) {
      return Status::peer_lost(text("rank ", rank, " sent no transport key"));
    }
    Result<std::unique_ptr<RemoteRegion>> region =
        context_.remotes->endpoint(rank).open(all[rank].key);
    if (!region.ok()) return region.status();
    if ((*region)->bytes() != all[rank].block_bytes) {
      return Status::format(text("rank ", rank, " of group ", context_.group, " announced ",
                                 all[rank].block_bytes, " bytes, but its transport key covers ",
                                 (*region)->bytes()));
    }
    regions[rank] = *std::move(region);
  }
  return std::unique_ptr<const RemoteMemory>(std::make_unique<RemoteMemory>(
      context_.remotes, std::move(local_region_), std::move(regions)));
}

}  // namespace ashlar::symm
