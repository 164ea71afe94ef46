// SPDX-License-Identifier: Apache-2.0
//
// The rendezvous of a Communicator, from a heap block of this rank to a table of all ranks' memory.
// The steps are: check the cache, gather a record from every rank, check that the records match,
// exchange handles and map the memory (handle_exchange.h), set up multicast (multicast_setup.h),
// cache the table. The table owns its mappings, so nothing stays mapped after an error.
#include <algorithm>

#include "base/text.h"
#include "device/last_error.h"
#include "symm/core/hash.h"
#include "symm/rendezvous/communicator.h"
#include "symm/rendezvous/handle_exchange.h"
#include "symm/rendezvous/multicast_setup.h"

namespace ashlar::symm {

namespace {

// Returns an id that collectives compare between ranks, to detect calls with different memory.
uint32_t memory_id_of(const HeapBlock& block, const PoolBuffer* pool_buffer) {
  uint64_t hash = hash_append(hash_append(kHashSeed, block.scope), block.ordinal);
  if (pool_buffer != nullptr)
    hash = hash_append(hash_append(hash, pool_buffer->ordinal), pool_buffer->sequence_hash);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

PeerHandle handle_of(const RankHeap::BufferLocation& found,
                     std::shared_ptr<const PeerTable> peers) {
  const PoolBuffer* pool_buffer = found.pool_buffer.get();
  PeerHandle::Range range;
  range.offset = found.offset;
  range.end =
      pool_buffer == nullptr ? peers->buffer_bytes() : pool_buffer->offset + pool_buffer->bytes;
  // Ensures that offset <= end. They are equal for a buffer of 0 bytes.
  range.end = std::max(range.end, range.offset);
  range.memory_id = memory_id_of(*found.block, pool_buffer);
  return {std::move(peers), range};
}

}  // namespace

Result<PeerHandle> Communicator::rendezvous(const void* pointer, Deadline deadline) {
  const std::optional<RankHeap::BufferLocation> found = heap_.find(pointer);
  if (!found) {
    return Status::invalid_argument(
        text(pointer, " is not symmetric memory of rank ", rank_info_.rank,
             ": allocate it from the heap that joined group ", options_.name));
  }
  // Fast path: without the collective mutex.
  std::shared_ptr<const PeerTable> peers = cached_table(*found);
  if (peers != nullptr) return handle_of(*found, std::move(peers));
  if (!collective_mutex_.try_lock_until(deadline)) return TimedMutex::timeout_error("a rendezvous");
  const TimedLock lock(collective_mutex_);
  peers = cached_table(*found);
  if (peers == nullptr) {
    if (has_left())
      return Status::invalid_argument(text("group ", options_.name, " was already left"));
    Result<std::shared_ptr<const PeerTable>> exchanged =
        exchange_memory(*found->block, found->pool_buffer.get(), deadline);
    if (!exchanged.ok()) return exchanged.status();
    peers = *std::move(exchanged);
    heap_.add_peers(*found->block, member_list_.token, peers);
    if (found->pool_buffer != nullptr)
      found->block->segment_buffers->mark_rendezvous(*found->pool_buffer, member_list_.token);
  }
  return handle_of(*found, std::move(peers));
}

// Every buffer of a pool has a collective rendezvous of its own, even if its segment is already
// mapped, to verify that all ranks passed the same buffer.
std::shared_ptr<const PeerTable> Communicator::cached_table(
    const RankHeap::BufferLocation& found) const {
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
  if (has_left())
    return Status::invalid_argument(text("group ", options_.name, " was already left"));
  const uint64_t ordinal = internal_count_++;
  const Result<std::shared_ptr<HeapBlock>> block =
      heap_.allocate_internal(bytes, "hidden of group " + options_.name, ordinal);
  // A rank that is out of memory reports the error here, so that the other ranks do not wait for
  // it.
  if (Status agreed = exchange_.agree(block.status(), deadline); !agreed.ok()) return agreed;
  return exchange_memory(**block, nullptr, deadline);
}

RendezvousContext Communicator::context() {
  return {.heap = heap_,
          .group = options_.name,
          .rank_info = rank_info_,
          .members = member_list_,
          .failure = *failure_,
          .exchange = exchange_,
          .connections = *connections_,
          .remotes = remotes_,
          .begin_phase = [this](Phase phase) { begin_phase(phase); }};
}

Result<std::shared_ptr<const PeerTable>> Communicator::exchange_memory(
    const HeapBlock& block, const PoolBuffer* pool_buffer, Deadline deadline) {
  SavedLastErrors before;
  const PhaseScope phase_scope(times_);
  begin_phase(Phase::kExchangingRecords);
  std::shared_ptr<const PeerTable> known =
      pool_buffer == nullptr ? nullptr : heap_.peers_of(block, member_list_.token);
  RendezvousRecord own = RendezvousRecord::of(block, pool_buffer);
  own.is_mapped = known == nullptr ? 0 : 1;
  own.no_multicast_reason = block.is_internal ? "not requested" : no_multicast_reason();
  const RendezvousContext borrowed = context();
  HandleExchange handles(borrowed);
  if (known == nullptr) handles.add_handles(block, own);
  const Result<std::vector<std::string>> bytes = exchange_.all_gather(own.to_bytes(), deadline);
  if (!bytes.ok()) return bytes.status();
  const Result<std::vector<RendezvousRecord>> records =
      parse_rendezvous_records(options_.name, *bytes);
  if (!records.ok()) return records.status();
  const std::vector<RendezvousRecord>& all = *records;
  if (Status same = check_pool_calls(block, pool_buffer, all, deadline); !same.ok()) return same;
  if (Status match = check_rendezvous_records(options_.name, all); !match.ok()) return match;
  if (known != nullptr) return known;

  Result<PeerTable::Mappings> mappings = handles.run(block, all, deadline);
  if (!mappings.ok()) return mappings.status();
  Result<MulticastSetupResult> multicast = MulticastSetup(borrowed).run(block, all, deadline);
  if (!multicast.ok()) return multicast.status();
  before.restore();  // the table contains the reasons why features are unavailable
  return std::shared_ptr<const PeerTable>(std::make_shared<PeerTable>(
      rank_info_, block.layout, *std::move(mappings), *std::move(multicast), multicast_releaser_));
}

std::string Communicator::no_multicast_reason() const {
  if (!options_.use_multicast) return "it is disabled in the group options";
  if (options_.may_share_device) return "ranks may share devices, which multicast does not support";
  MulticastDriver* driver = heap_.backend().multicast();
  if (driver == nullptr) return text("back end ", heap_.backend().name(), " has none");
  return with_call(driver->availability()).message();
}

// If the ranks made different calls to their pools or passed different buffers, exchanges the call
// logs to report the first difference.
Status Communicator::check_pool_calls(const HeapBlock& block, const PoolBuffer* pool_buffer,
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
