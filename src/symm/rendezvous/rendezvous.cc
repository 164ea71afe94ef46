// SPDX-License-Identifier: Apache-2.0
//
// The rendezvous: from a block of this rank to a table of all ranks' memory. In order: look into
// the cache, say what we bring, check that it matches, hand it over and map what the others handed
// over (handing_over.cc), agree that all could, keep the table. The table is made of shared owners,
// so that whatever goes wrong, nothing stays mapped.
#include <algorithm>

#include "base/text.h"
#include "device/last_error.h"
#include "symm/core/hash.h"
#include "symm/rendezvous/communicator.h"
#include "symm/rendezvous/rendezvous_record.h"

namespace ashlar::symm {

namespace {

// A collective compares these numbers: ranks that mean different memory find out.
uint32_t number_of(const Block& block, const Carving* carving) {
  uint64_t hash = hash_on(hash_on(kHashStart, block.scope), block.ordinal);
  if (carving != nullptr) hash = hash_on(hash_on(hash, carving->ordinal), carving->sequence_hash);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

PeerHandle handle_of(const Arena::Found& found, std::shared_ptr<const Peers> peers) {
  const Carving* carving = found.carving.get();
  PeerHandle::Part part;
  part.offset = found.offset;
  part.end = carving == nullptr ? peers->buffer_bytes() : carving->offset + carving->bytes;
  // A buffer of 0 bytes has an address that counts as one.
  part.end = std::max(part.end, part.offset);
  part.number = number_of(*found.block, carving);
  return {std::move(peers), part};
}

}  // namespace

Result<PeerHandle> Circle::rendezvous(const void* pointer, Deadline deadline) {
  const std::optional<Arena::Found> found = arena_.find(pointer);
  if (!found) {
    return Status::invalid_argument(text(pointer, " is no symmetric memory of rank ", seat_.rank,
                                         ": allocate it from the arena that joined group ",
                                         options_.name));
  }
  // Without waiting for a turn, if we can.
  std::shared_ptr<const Peers> peers = table_of(*found);
  if (peers != nullptr) return handle_of(*found, std::move(peers));
  if (!turn_.take(deadline)) return Turn::not_taken("a rendezvous");
  const TurnTaken taken(turn_);
  peers = table_of(*found);
  if (peers == nullptr) {
    if (is_over_)
      return Status::invalid_argument(text("group ", options_.name, " was left already"));
    Result<std::shared_ptr<const Peers>> met = meet(*found->block, found->carving.get(), deadline);
    if (!met.ok()) return met.status();
    peers = *std::move(met);
    arena_.keep_peers(*found->block, roster_.token, peers);
    if (found->carving != nullptr) found->block->carvings->keep_met(*found->carving, roster_.token);
  }
  return handle_of(*found, std::move(peers));
}

// A segment may be mapped, but each buffer carved from it is met for once: otherwise nobody would
// notice that ranks mean different ones.
std::shared_ptr<const Peers> Circle::table_of(const Arena::Found& found) const {
  if (found.carving != nullptr && !found.block->carvings->has_met(*found.carving, roster_.token)) {
    return nullptr;
  }
  return arena_.peers_of(*found.block, roster_.token);
}

Result<std::shared_ptr<const Peers>> Circle::share_memory(size_t bytes, Deadline deadline) {
  if (!turn_.take(deadline)) return Turn::not_taken("a rendezvous");
  const TurnTaken taken(turn_);
  if (is_over_) return Status::invalid_argument(text("group ", options_.name, " was left already"));
  const uint64_t ordinal = hidden_count_++;
  const Result<std::shared_ptr<Block>> block =
      arena_.make_hidden(bytes, "hidden of group " + options_.name, ordinal);
  // Whoever has no memory says so where the others wait for it.
  if (Status all = exchange_.agree(block.status(), deadline); !all.ok()) return all;
  return meet(**block, nullptr, deadline);
}

Result<std::shared_ptr<const Peers>> Circle::meet(const Block& block, const Carving* carving,
                                                  Deadline deadline) {
  const FailuresBefore before;
  const PhaseEnd end(times_);
  reach(Phase::kRecording);
  std::shared_ptr<const Peers> known =
      carving == nullptr ? nullptr : arena_.peers_of(block, roster_.token);
  Brought own = Brought::of(block, carving);
  own.is_mapped = known == nullptr ? 0 : 1;
  own.multicast = block.is_hidden ? "nobody asked for it" : why_no_multicast();
  Sharing sharing;
  if (known == nullptr) {
    offer(block, own);
    sharing = share_with_remotes(block, own);
  }
  const Result<std::vector<std::string>> records = exchange_.all_gather(own.to_bytes(), deadline);
  if (!records.ok()) return records.status();
  const Result<std::vector<Brought>> brought = parse_brought(options_.name, *records);
  if (!brought.ok()) return brought.status();
  const std::vector<Brought>& all = *brought;
  if (Status same = compare_acts(block, carving, all, deadline); !same.ok()) return same;
  if (Status matches = check_brought(options_.name, all); !matches.ok()) return matches;
  if (known != nullptr) return known;

  Result<Peers::Handed> handed = hand_round(block, all, std::move(sharing), deadline);
  if (!handed.ok()) return handed.status();
  Result<MulticastOutcome> multicast = set_up_multicast(block, all, deadline);
  if (!multicast.ok()) return multicast.status();
  before.restore();  // what was gone on without is in the reasons
  return std::shared_ptr<const Peers>(std::make_shared<Peers>(
      seat_, block.layout, *std::move(handed), *std::move(multicast), multicast_keeper_));
}

Circle::Sharing Circle::share_with_remotes(const Block& block, Brought& own) {
  Sharing sharing;
  if (remotes_ == nullptr) return sharing;
  const std::span<std::byte> memory(block.memory->base(), block.memory->bytes());
  Result<std::unique_ptr<Region>> region = remotes_->transport().share(memory);
  sharing.outcome = region.status();
  if (!region.ok()) return sharing;
  own.key = (*region)->key();
  sharing.remote = {block.memory, *std::move(region)};
  return sharing;
}

// Ranks whose pools came about differently tell each other their last acts, to name the first that
// differs.
Status Circle::compare_acts(const Block& block, const Carving* carving,
                            const std::vector<Brought>& all, Deadline deadline) {
  if (!has_other_acts(all)) return {};
  const std::string tail =
      carving == nullptr ? ActLog().tail_up_to(0) : block.carvings->log().tail_up_to(carving->act);
  const Result<std::vector<std::string>> tails = exchange_.all_gather(tail, deadline);
  if (!tails.ok()) return tails.status();
  return describe_other_acts(options_.name, all, *tails);
}

}  // namespace ashlar::symm
