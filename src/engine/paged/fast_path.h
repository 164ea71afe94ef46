// SPDX-License-Identifier: Apache-2.0
//
// The fast path of allocate and free, which serves nearly every request. Both operations require
// that there are no trackers and that the arena's lock is biased to the calling thread, which is
// the case after this thread has taken the lock many times in a row. An allocation is also served
// only from the default pool, and only if a quick list holds a block of about the requested size.
//
// The fast path makes no function call, except to record history, to redistribute peak headroom or
// to create the quick lists, so that no registers need to be saved. Taking a lock that is biased to
// the calling thread costs two plain stores. The slower paths of PagedEngine serve all other
// requests.
//
// Thread safe. `set_enabled` is called under the engine's lock.
#pragma once

#include <array>
#include <atomic>

#include "base/hash_mix.h"
#include "engine/engine.h"
#include "engine/paged/pool/arena.h"
#include "engine/paged/request_tracer.h"

namespace ashlar::paged {

// Finds the arena of a stream without a lock and without thread-local state. A direct-mapped cache:
// two streams that share an entry evict each other, and an evicted stream misses the fast path.
class ArenaCache {
 public:
  // Returns null if the arena is not cached.
  Arena* find(StreamId stream) const {
    Arena* arena = entries_[index_of(stream)].load(std::memory_order_acquire);
    return arena != nullptr && arena->stream == stream ? arena : nullptr;
  }
  // REQUIRES: the arena outlives the cache.
  void insert(Arena& arena) {
    entries_[index_of(arena.stream)].store(&arena, std::memory_order_release);
  }
  // Clears the stream's entry, even if it holds another stream that shares the entry.
  void remove(StreamId stream) {
    entries_[index_of(stream)].store(nullptr, std::memory_order_release);
  }

 private:
  // 64 entries: twice the number of streams that PyTorch creates per priority (kStreamsPerPool ==
  // 32 in c10/cuda/CUDAStream.cpp).
  static constexpr int kBits = 6;

  // Stream handles are addresses or small integers, so they are hashed.
  static size_t index_of(StreamId stream) { return hash_mix(stream.value()) >> (64 - kBits); }

  std::array<std::atomic<Arena*>, size_t{1} << kBits> entries_{};
};

// Whether the block can be freed without further work: it is allocated, no other stream uses it,
// and it is neither pinned nor uncached. REQUIRES: the lock of its arena.
inline bool can_free_immediately(const PagedBlock& block) {
  return block.is_allocated() && block.uses.empty() && block.pin_count == 0 && !block.is_uncached;
}

class FastPath {
 public:
  // Returns null if the fast path cannot serve the request.
  [[gnu::always_inline]] PagedBlock* allocate(const AllocationRequest& request,
                                              const RequestTracer& tracer, History& history) {
    Arena* arena = arenas_.find(request.stream);
    if (arena == nullptr || is_disabled() || tracer.has_trackers()) return nullptr;
    const OwnedLock lock(arena->lock);
    if (!lock.is_held()) return nullptr;
    SubArena& sub = arena->sub_arena(SizePolicy::is_small(request.bytes));
    PagedBlock*& head = arena->quick.head_for(request.bytes);
    PagedBlock* block = head;
    if (block == nullptr) return nullptr;
    const Amount more{1, static_cast<int64_t>(block->bytes), static_cast<int64_t>(request.bytes)};
    if (!arena->may_rise(sub, more)) return nullptr;
    head = block->list_next;
    Arena::mark_allocated(sub, block, request.bytes, request.stack);
    if (history.is_on()) [[unlikely]]
      RequestTracer::record_alloc_fast(history, *block);
    return block;
  }

  // Returns false, without effect, if the fast path cannot free the block.
  [[gnu::always_inline]] static bool free(PagedBlock* block, StackId stack,
                                          const RequestTracer& tracer, History& history) {
    if (tracer.has_trackers()) return false;
    const OwnedLock lock(block->arena->lock);
    if (!lock.is_held() || !can_free_immediately(*block)) return false;
    if (!block->arena->quick.put(block)) return false;
    SubArena& sub = block->arena->sub_arena(block->is_small);
    sub.counters.total_freed.add(amount_of(*block));
    if (history.is_on()) [[unlikely]]
      RequestTracer::record_free_fast(history, *block, stack);
    return true;
  }

  ArenaCache& arenas() { return arenas_; }
  bool is_disabled() const { return fast_path_disabled_.load(std::memory_order_relaxed); }
  // Stores only changes: every hit reads the flag, and every slow path calls this.
  void set_enabled(bool enabled) {
    if (is_disabled() == enabled) fast_path_disabled_.store(!enabled, std::memory_order_relaxed);
  }

 private:
  ArenaCache arenas_;
  std::atomic<bool> fast_path_disabled_{false};
};

}  // namespace ashlar::paged
