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
uint32_t number_of(const HeapBlock& block, const PoolBuffer* pool_buffer) {
  uint64_t hash = hash_append(hash_append(kHashSeed, block.scope), block.ordinal);
  if (pool_buffer != nullptr)
    hash = hash_append(hash_append(hash, pool_buffer->ordinal), pool_buffer->sequence_hash);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

PeerHandle handle_of(const RankHeap::Found& found, std::shared_ptr<const PeerTable> peers) {
  const PoolBuffer* pool_buffer = found.pool_buffer.get();
  PeerHandle::Part part;
  part.offset = found.offset;
  part.end =
      pool_buffer == nullptr ? peers->buffer_bytes() : pool_buffer->offset + pool_buffer->bytes;
  // A buffer of 0 bytes has an address that counts as one.
  part.end = std::max(part.end, part.offset);
  part.number = number_of(*found.block, pool_buffer);
  return {std::move(peers), part};
}

}  // namespace

Result<PeerHandle> Communicator::rendezvous(const void* pointer, Deadline deadline) {
  const std::optional<RankHeap::Found> found = heap_.find(pointer);
  if (!found) {
    return Status::invalid_argument(
        text(pointer, " is no symmetric memory of rank ", rank_info_.rank,
             ": allocate it from the arena that joined group ", options_.name));
  }
  // Without waiting for a turn, if we can.
  std::shared_ptr<const PeerTable> peers = table_of(*found);
  if (peers != nullptr) return handle_of(*found, std::move(peers));
  if (!collective_mutex_.try_lock_until(deadline)) return TimedMutex::timeout_error("a rendezvous");
  const TimedLock lock(collective_mutex_);
  peers = table_of(*found);
  if (peers == nullptr) {
    if (is_over_)
      return Status::invalid_argument(text("group ", options_.name, " was left already"));
    Result<std::shared_ptr<const PeerTable>> met =
        meet(*found->block, found->pool_buffer.get(), deadline);
    if (!met.ok()) return met.status();
    peers = *std::move(met);
    heap_.add_peers(*found->block, member_list_.token, peers);
    if (found->pool_buffer != nullptr)
      found->block->segment_buffers->mark_rendezvous(*found->pool_buffer, member_list_.token);
  }
  return handle_of(*found, std::move(peers));
}

// A segment may be mapped, but each buffer carved from it is met for once: otherwise nobody would
// notice that ranks mean different ones.
std::shared_ptr<const PeerTable> Communicator::table_of(const RankHeap::Found& found) const {
  if (found.pool_buffer != nullptr &&
      !found.block->segment_buffers->has_rendezvous(*found.pool_buffer, member_list_.token)) {
    return nullptr;
  }
  return heap_.peers_of(*found.block, member_list_.token);
}

Result<std::shared_ptr<const PeerTable>> Communicator::allocate_internal(size_t bytes,
                                                                         Deadline deadline) {
  if (!collective_mutex_.try_lock_until(deadline)) return TimedMutex::timeout_error("a rendezvous");
  const TimedLock lock(collective_mutex_);
  if (is_over_) return Status::invalid_argument(text("group ", options_.name, " was left already"));
  const uint64_t ordinal = internal_count_++;
  const Result<std::shared_ptr<HeapBlock>> block =
      heap_.allocate_internal(bytes, "hidden of group " + options_.name, ordinal);
  // Whoever has no memory says so where the others wait for it.
  if (Status all = exchange_.agree(block.status(), deadline); !all.ok()) return all;
  return meet(**block, nullptr, deadline);
}

Result<std::shared_ptr<const PeerTable>> Communicator::meet(const HeapBlock& block,
                                                            const PoolBuffer* pool_buffer,
                                                            Deadline deadline) {
  const FailuresBefore before;
  const PhaseEnd end(times_);
  reach(Phase::kRecording);
  std::shared_ptr<const PeerTable> known =
      pool_buffer == nullptr ? nullptr : heap_.peers_of(block, member_list_.token);
  RendezvousRecord own = RendezvousRecord::of(block, pool_buffer);
  own.is_mapped = known == nullptr ? 0 : 1;
  own.multicast = block.is_internal ? "nobody asked for it" : why_no_multicast();
  Sharing sharing;
  if (known == nullptr) {
    offer(block, own);
    sharing = share_with_remotes(block, own);
  }
  const Result<std::vector<std::string>> records = exchange_.all_gather(own.to_bytes(), deadline);
  if (!records.ok()) return records.status();
  const Result<std::vector<RendezvousRecord>> brought =
      parse_rendezvous_records(options_.name, *records);
  if (!brought.ok()) return brought.status();
  const std::vector<RendezvousRecord>& all = *brought;
  if (Status same = compare_acts(block, pool_buffer, all, deadline); !same.ok()) return same;
  if (Status matches = check_rendezvous_records(options_.name, all); !matches.ok()) return matches;
  if (known != nullptr) return known;

  Result<PeerTable::Handed> handed = hand_round(block, all, std::move(sharing), deadline);
  if (!handed.ok()) return handed.status();
  Result<MulticastOutcome> multicast = set_up_multicast(block, all, deadline);
  if (!multicast.ok()) return multicast.status();
  before.restore();  // what was gone on without is in the reasons
  return std::shared_ptr<const PeerTable>(std::make_shared<PeerTable>(
      rank_info_, block.layout, *std::move(handed), *std::move(multicast), multicast_keeper_));
}

Communicator::Sharing Communicator::share_with_remotes(const HeapBlock& block,
                                                       RendezvousRecord& own) {
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
Status Communicator::compare_acts(const HeapBlock& block, const PoolBuffer* pool_buffer,
                                  const std::vector<RendezvousRecord>& all, Deadline deadline) {
  if (!have_pool_calls_diverged(all)) return {};
  const std::string tail = pool_buffer == nullptr
                               ? PoolCallLog().tail_up_to(0)
                               : block.segment_buffers->log().tail_up_to(pool_buffer->call);
  const Result<std::vector<std::string>> tails = exchange_.all_gather(tail, deadline);
  if (!tails.ok()) return tails.status();
  return describe_pool_divergence(options_.name, all, *tails);
}

}  // namespace ashlar::symm
