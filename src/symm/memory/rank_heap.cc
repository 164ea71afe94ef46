// SPDX-License-Identifier: Apache-2.0
//
// Allocates, finds and frees heap blocks, and caches the peer tables of their rendezvous.
#include "symm/memory/rank_heap.h"

#include <algorithm>

#include "base/align.h"
#include "base/text.h"
#include "symm/core/hash.h"

namespace ashlar::symm {
namespace {

constexpr size_t kBufferRounding = 16;

}  // namespace

// Allocates the memory without holding the mutex, then assigns the ordinal under the mutex. The
// order of the ordinals therefore defines the order of concurrent allocations in the sequence.
Result<std::byte*> RankHeap::allocate(size_t bytes, const AllocationOptions& options) {
  if (options.persistent_id) {
    MutexLock lock(mutex_);
    const auto known = persistent_.find({options.group, *options.persistent_id});
    if (known != persistent_.end()) return reuse_persistent_locked(*known->second, bytes);
  }
  Result<std::shared_ptr<HeapBlock>> made = make_block(bytes, options_.pad_bytes);
  if (!made.ok()) return made.status();
  const std::shared_ptr<HeapBlock>& block = *made;
  block->scope = options.group;
  block->persistent_id = options.persistent_id;
  block->segment_buffers = options.segment_buffers;

  MutexLock lock(mutex_);
  if (options.persistent_id) {
    const PersistentKey key(options.group, *options.persistent_id);
    const auto [known, is_new] = persistent_.try_emplace(key, block);
    if (!is_new) return reuse_persistent_locked(*known->second, bytes);
  }
  Sequence& sequence = sequences_.try_emplace(options.group, Sequence{0, kHashSeed}).first->second;
  sequence.hash = hash_append(sequence.hash, uint64_t{bytes});
  sequence.hash = hash_append(sequence.hash, uint64_t{block->layout.pad_bytes});
  sequence.hash = hash_append(sequence.hash, options.persistent_id.value_or(UINT64_MAX));
  block->ordinal = sequence.count++;
  block->sequence_hash = sequence.hash;
  blocks_.emplace(block->buffer(), block);
  return block->buffer();
}

Result<std::byte*> RankHeap::reuse_persistent_locked(HeapBlock& block, size_t bytes) {
  if (block.is_live) {
    return Status::invalid_argument(text("persistent allocation ", *block.persistent_id, " of ",
                                         block.layout.buffer_bytes,
                                         " bytes is still in use: free it first"));
  }
  if (bytes != block.layout.buffer_bytes) {
    return Status::invalid_argument(text("persistent allocation ", *block.persistent_id, " has ",
                                         block.layout.buffer_bytes, " bytes, requested ", bytes,
                                         ": use another id"));
  }
  block.is_live = true;
  return block.buffer();
}

Result<std::shared_ptr<HeapBlock>> RankHeap::make_block(size_t bytes, size_t pad_bytes) {
  release_multicast(Deadline::Clock::now());
  if (bytes > kMaxBlockBytes || pad_bytes > kMaxBlockBytes) {
    return Status::out_of_memory(
        text("symmetric allocation of ", bytes, " bytes: the limit is ", kMaxBlockBytes));
  }
  auto block = std::make_shared<HeapBlock>();
  block->layout.pad_bytes = pad_bytes;
  block->layout.buffer_offset = align_up(pad_bytes, kBufferAlignment);
  block->layout.buffer_bytes = bytes;
  const size_t buffer_offset = block->layout.buffer_offset;
  Result<std::shared_ptr<MappedMemory>> memory = backend_.allocate(
      buffer_offset + align_up(std::max<size_t>(bytes, 1), kBufferRounding), buffer_offset);
  if (!memory.ok()) return memory.status();
  block->memory = *std::move(memory);
  block->registry_id = process_.register_memory(block->memory);
  return block;
}

Result<std::shared_ptr<HeapBlock>> RankHeap::allocate_internal(size_t bytes, std::string scope,
                                                               uint64_t ordinal) {
  // The whole block is a pad without a buffer, because only pads are zeroed.
  Result<std::shared_ptr<HeapBlock>> made = make_block(0, bytes);
  if (!made.ok()) return made;
  (*made)->scope = std::move(scope);
  (*made)->ordinal = ordinal;
  (*made)->is_internal = true;
  return made;
}

Status RankHeap::free(const void* pointer) {
  std::shared_ptr<HeapBlock> freed;  // unmapped after the mutex is released
  MutexLock lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(pointer));
  if (found == blocks_.end() || !found->second->is_live) {
    return Status::invalid_argument(
        text(pointer, " is not the beginning of a symmetric allocation of this rank"));
  }
  if (found->second->persistent_id) {
    found->second->is_live = false;
    return {};
  }
  freed = std::move(found->second);
  blocks_.erase(found);
  return {};
}

std::optional<RankHeap::BufferLocation> RankHeap::find(const void* pointer) const {
  const auto* at = static_cast<const std::byte*>(pointer);
  MutexLock lock(mutex_);
  auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return std::nullopt;
  const auto& [begin, block] = *std::prev(after);
  const auto offset = static_cast<size_t>(at - begin);
  if (!block->is_live || offset >= std::max<size_t>(block->layout.buffer_bytes, 1)) {
    return std::nullopt;
  }
  if (block->segment_buffers == nullptr) return BufferLocation{block, offset, nullptr};
  std::shared_ptr<const PoolBuffer> pool_buffer = block->segment_buffers->find(offset);
  if (pool_buffer == nullptr) return std::nullopt;
  return BufferLocation{block, offset, std::move(pool_buffer)};
}

size_t RankHeap::live_count() const {
  MutexLock lock(mutex_);
  return static_cast<size_t>(std::count_if(blocks_.begin(), blocks_.end(), [](const auto& each) {
    return each.second->is_live && each.second->segment_buffers == nullptr;
  }));
}

std::shared_ptr<const PeerTable> RankHeap::peers_of(const HeapBlock& block,
                                                    const Token& group) const {
  MutexLock lock(mutex_);
  const auto found = block.peers.find(group);
  return found == block.peers.end() ? nullptr : found->second;
}

void RankHeap::add_peers(HeapBlock& block, const Token& group,
                         std::shared_ptr<const PeerTable> peers) {
  MutexLock lock(mutex_);
  block.peers.insert_or_assign(group, std::move(peers));
}

void RankHeap::release_multicast_after(std::shared_ptr<MulticastReleaser> releaser,
                                       Deadline deadline) {
  MutexLock lock(mutex_);
  deferred_releases_.push_back({std::move(releaser), deadline});
}

void RankHeap::release_multicast(Deadline::Clock::time_point now) {
  std::vector<DeferredRelease> due;
  {
    MutexLock lock(mutex_);
    const auto is_pending = [now](const DeferredRelease& each) { return each.until.at() > now; };
    const auto first =
        std::stable_partition(deferred_releases_.begin(), deferred_releases_.end(), is_pending);
    due.assign(std::move_iterator(first), std::move_iterator(deferred_releases_.end()));
    deferred_releases_.erase(first, deferred_releases_.end());
  }
  for (const DeferredRelease& each : due) each.releaser->release_all();
}

void RankHeap::forget_group(const Token& group) {
  std::vector<std::shared_ptr<const PeerTable>> dropped;  // unmapped after the mutex is released
  MutexLock lock(mutex_);
  for (const auto& [begin, block] : blocks_) {
    if (block->segment_buffers != nullptr) block->segment_buffers->forget_group(group);
    const auto found = block->peers.find(group);
    if (found == block->peers.end()) continue;
    dropped.push_back(std::move(found->second));
    block->peers.erase(found);
  }
}

}  // namespace ashlar::symm
