// The rendezvous: from a block of this rank to a table of all ranks' memory. In order: look into
// the cache, say what we bring, check that it matches, hand it over, map what the others handed
// over, agree that all could, keep the table. The table is made of shared owners, so that whatever
// goes wrong, nothing stays mapped.
#include <algorithm>

#include "base/text.h"
#include "base/wire.h"
#include "symm/circle.h"
#include "symm/hash.h"

namespace ashlar::symm {

// What a rank brings: the same on all ranks, but for the last three.
struct Circle::Brought {
  std::string scope{};
  uint64_t ordinal = 0;
  uint64_t sequence_hash = 0;
  uint64_t pad_bytes = 0;
  uint64_t front_bytes = 0;
  uint64_t buffer_bytes = 0;
  uint64_t block_bytes = 0;
  uint64_t lent_as = 0;
  std::string key{};  // for ranks on other machines; empty: there are none
};

namespace {

constexpr size_t kMostScopeBytes = 1024;

uint32_t number_of(const Block& block) {
  const uint64_t hash = hash_on(hash_on(kHashStart, block.scope), block.ordinal);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace

Result<PeerHandle> Circle::rendezvous(const void* pointer, Deadline deadline) {
  const std::optional<Arena::Found> found = arena_.find(pointer);
  if (!found) {
    return Status::usage(text(pointer, " is no symmetric memory of rank ", seat_.rank,
                              ": allocate it from the arena that joined group ", options_.name));
  }
  // Without waiting for a turn, if we can.
  std::shared_ptr<const Peers> peers = arena_.peers_of(*found->block, roster_.token);
  if (peers != nullptr) return PeerHandle(std::move(peers), found->offset);
  if (!turn_.take(deadline)) return Turn::not_taken("a rendezvous");
  const TurnTaken taken(turn_);
  peers = arena_.peers_of(*found->block, roster_.token);
  if (peers == nullptr) {
    if (is_over_) return Status::usage(text("group ", options_.name, " was left already"));
    Result<std::shared_ptr<const Peers>> met = meet(*found->block, deadline);
    if (!met.ok()) return met.status();
    peers = *std::move(met);
    arena_.keep_peers(*found->block, roster_.token, peers);
  }
  return PeerHandle(std::move(peers), found->offset);
}

Result<std::shared_ptr<const Peers>> Circle::share_memory(size_t bytes, Deadline deadline) {
  if (!turn_.take(deadline)) return Turn::not_taken("a rendezvous");
  const TurnTaken taken(turn_);
  if (is_over_) return Status::usage(text("group ", options_.name, " was left already"));
  const uint64_t ordinal = hidden_count_++;
  const Result<std::shared_ptr<Block>> block =
      arena_.make_hidden(bytes, "hidden of group " + options_.name, ordinal);
  // Whoever has no memory says so where the others wait for it.
  if (Status all = exchange_.agree(block.status(), deadline); !all.ok()) return all;
  return meet(**block, deadline);
}

Result<std::shared_ptr<const Peers>> Circle::meet(const Block& block, Deadline deadline) {
  reach(Phase::kRecording);
  RemoteMemory::Own shared;
  Status own_outcome;
  if (remotes_ != nullptr) {
    const std::span<std::byte> memory(block.memory->base(), block.memory->bytes());
    Result<std::unique_ptr<Region>> region = remotes_->transport().share(memory);
    own_outcome = region.status();
    if (region.ok()) shared = {block.memory, *std::move(region)};
  }
  WireWriter own;
  own.text(block.scope).number(block.ordinal).number(block.sequence_hash);
  own.number(uint64_t{block.layout.pad_bytes}).number(uint64_t{block.layout.front_bytes});
  own.number(uint64_t{block.layout.buffer_bytes}).number(uint64_t{block.memory->bytes()});
  own.number(block.lent_as).text(shared.region == nullptr ? std::string() : shared.region->key());
  const Result<std::vector<std::string>> records = exchange_.all_gather(own.take(), deadline);
  if (!records.ok()) return records.status();
  std::vector<Brought> all(records->size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    WireReader reader((*records)[rank]);
    Brought& each = all[rank];
    each.scope = reader.text(kMostScopeBytes);
    for (uint64_t* field : {&each.ordinal, &each.sequence_hash, &each.pad_bytes, &each.front_bytes,
                            &each.buffer_bytes, &each.block_bytes, &each.lent_as}) {
      *field = reader.number<uint64_t>();
    }
    each.key = reader.text(Transport::kMostKeyBytes);
    if (!reader.is_done()) {
      return Status::format(text("what rank ", rank, " of group ", options_.name,
                                 " brought to the rendezvous is unreadable"));
    }
  }
  if (Status matches = check_brought(all); !matches.ok()) return matches;

  const uint64_t sequence = exchange_.sequence();
  reach(Phase::kHandingOver);
  if (Status handed = hand_over(block, sequence, deadline); own_outcome.ok()) own_outcome = handed;
  reach(Phase::kMapping);
  std::vector<Peers::Peer> peers;
  if (own_outcome.ok()) {
    Result<std::vector<Peers::Peer>> taken = take(block, all, sequence, deadline);
    own_outcome = taken.status();
    if (taken.ok()) peers = *std::move(taken);
  }
  std::unique_ptr<const RemoteMemory> remote;
  if (own_outcome.ok() && remotes_ != nullptr) {
    Result<std::unique_ptr<const RemoteMemory>> taken = take_remote(std::move(shared), all);
    own_outcome = taken.status();
    if (taken.ok()) remote = *std::move(taken);
  }
  reach(Phase::kAgreeing);
  if (Status agreed = exchange_.agree(own_outcome, deadline); !agreed.ok()) return agreed;
  return std::shared_ptr<const Peers>(std::make_shared<Peers>(seat_, number_of(block), block.layout,
                                                              std::move(peers), std::move(remote)));
}

// Every rank looks at the same records in the same order, and so finds the same.
Status Circle::check_brought(const std::vector<Brought>& all) const {
  const auto refuse = [this](std::string_view what, const std::string& listed) {
    return Status::usage(
        text("the ranks of group ", options_.name, " came with ", what, ": ", listed));
  };
  const int count = seat_.world_size;
  const auto scope = [&](int rank) {
    return all[rank].scope.empty() ? std::string("any group") : all[rank].scope;
  };
  if (const std::string listed = list_differences(count, scope); !listed.empty()) {
    return refuse("blocks that were allocated for different groups", listed);
  }
  const auto bytes = [&](int rank) { return all[rank].buffer_bytes; };
  if (const std::string listed = list_differences(count, bytes); !listed.empty()) {
    return refuse("buffers of different sizes in bytes", listed);
  }
  const auto pad = [&](int rank) { return all[rank].pad_bytes; };
  if (const std::string listed = list_differences(count, pad); !listed.empty()) {
    return refuse("pads of different sizes in bytes", listed);
  }
  const auto ordinal = [&](int rank) { return all[rank].ordinal; };
  if (const std::string listed = list_differences(count, ordinal); !listed.empty()) {
    return refuse(
        "different blocks, counted in the order of allocation (blocks that not all ranks allocate "
        "are to be allocated for the group of those who do)",
        listed);
  }
  const auto hash = [&](int rank) { return text(std::hex, all[rank].sequence_hash); };
  if (const std::string listed = list_differences(count, hash); !listed.empty()) {
    return refuse("blocks after different allocations; hashes of their sizes", listed);
  }
  for (int rank = 0; rank < count; ++rank) {
    const Brought& each = all[rank];
    const bool is_sound = each.front_bytes == all[0].front_bytes &&
                          each.block_bytes >= each.front_bytes &&
                          each.block_bytes - each.front_bytes >= each.buffer_bytes;
    if (is_sound) continue;
    return Status::format(text("rank ", rank, " of group ", options_.name, " brought ",
                               each.block_bytes, " bytes for a front of ", each.front_bytes,
                               " and a buffer of ", each.buffer_bytes));
  }
  return {};
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
    if (rank == seat_.rank) {
      peer.memory = block.memory;
    } else if (links_->reaches(rank)) {
      Result<UniqueFd> got = links_->receive(rank, sequence, deadline);
      if (!got.ok()) return got.status();
      if (!got->valid()) return Status::peer_lost(text("rank ", rank, " handed nothing over"));
      Result<std::shared_ptr<Memory>> mapped =
          arena_.backend().import_fd(*std::move(got), all[rank].block_bytes);
      if (!mapped.ok()) return mapped.status();
      peer.memory = *std::move(mapped);
    } else if (peer.access == PeerAccess::kDirect) {
      peer.memory = arena_.process().borrow(all[rank].lent_as);
      if (peer.memory == nullptr) {
        return Status::format(text("rank ", rank, "'s memory is gone"));
      }
    }
  }
  return peers;
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
