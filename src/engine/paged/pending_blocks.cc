// SPDX-License-Identifier: Apache-2.0
//
// Polls pending frees and completes them.
#include "engine/paged/pending_blocks.h"

#include <algorithm>
#include <functional>

#include "base/host_memory.h"

namespace ashlar::paged {
namespace {

// From the third empty poll on, the interval doubles, up to 2^8 / 8 = 32 hits. A mixture-of-experts
// run then makes 365,000 queries instead of 1,300,000 and reserves the same amount of memory. The
// recorded runs reserve the same amount with a maximum of 16, 32 or 64 hits
// (docs/internals/experiments/paged_engine.md).
constexpr int kMaxEmptyPolls = 8;

}  // namespace

// Stores only changes: hits of other threads read the flag, and every slow path calls this.
void PendingBlocks::publish() {
  const bool has_pending = !streams_.frees().empty();
  if (has_pending != has_pending_.load(std::memory_order_relaxed)) {
    has_pending_.store(has_pending, std::memory_order_relaxed);
  }
}

Status PendingBlocks::add(PagedBlock* block) {
  if (!block->uses.empty()) return streams_.frees().add(block);
  make_free(block);
  return {};
}

Status PendingBlocks::poll(StreamId stream) {
  if (streams_.frees().empty()) return {};
  std::vector<Block*> finished;
  const ScopeGuard complete([&]() ASHLAR_REQUIRES(engine_lock) { make_free(finished); });
  Status collected = streams_.frees().collect_for_stream(stream, finished);
  empty_poll_count_ = finished.empty() ? std::min(empty_poll_count_ + 1, kMaxEmptyPolls) : 0;
  hits_before_poll_.store((1 << empty_poll_count_) / 8, std::memory_order_relaxed);
  return collected;
}

Status PendingBlocks::collect() {
  std::vector<Block*> finished;
  const ScopeGuard complete([&]() ASHLAR_REQUIRES(engine_lock) { make_free(finished); });
  return streams_.frees().collect(finished);
}

Status PendingBlocks::wait(PoolId pool) {
  peaks_.count_stream_sync();
  std::function<bool(const Block&)> is_wanted;
  if (!pool.is_default()) {
    is_wanted = [pool](const Block& block) {
      return static_cast<const PagedBlock&>(block).arena->pool.id == pool;
    };
  }
  std::vector<Block*> finished;
  const ScopeGuard complete([&]() ASHLAR_REQUIRES(engine_lock) { make_free(finished); });
  return streams_.frees().wait(finished, is_wanted);
}

void PendingBlocks::make_free(const std::vector<Block*>& finished) noexcept {
  for (Block* block : finished) make_free(static_cast<PagedBlock*>(block));
}

void PendingBlocks::make_free(PagedBlock* block) noexcept {
  View& view = *block->view;
  Arena& arena = *block->arena;
  {
    BiasedLock lock(arena.lock);
    tracer_.trace_free_completed(*block);
    arena.sub_arena(view.is_small).counters.pending.subtract(amount_of(*block));
    if (!block->is_uncached) {
      arena.put(block);
      return;
    }
    arena.add_free(block);
  }
  segments_.release(view);
}

}  // namespace ashlar::paged
