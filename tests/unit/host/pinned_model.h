// SPDX-License-Identifier: Apache-2.0
//
// A naive model of the pinned allocator with linear searches and its own arithmetic. The random
// test compares the allocator with the model.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ashlar/host_stats.h"
#include "ashlar/options.h"

namespace ashlar {

struct ModelBlock {
  const std::byte* begin = nullptr;
  size_t bytes = 0;
  size_t requested_bytes = 0;
  bool is_reserved = false;
  size_t pool = 0;          // 0 is the default pool
  std::set<size_t> uses{};  // streams without a recorded event
  std::set<uint64_t> captures{};
  std::map<size_t, int> wait_until{};  // keyed by stream: done_count from which the stream is done
};

struct ModelStream {
  int queued_count = 0;
  int done_count = 0;
  bool is_capturing = false;
};

struct ModelPool {
  bool exists = false;
  bool is_routed_to = false;
  int use_count = 0;

  bool is_freeable() const { return use_count == 0 && !is_routed_to; }
};

class PinnedModel {
 public:
  PinnedModel(const AllocatorOptions& options, size_t stream_count)
      : streams(stream_count),
        options_(options),
        reserve_left_bytes_(options.pinned.reserve_segment_bytes) {}

  // Returns the size of new memory for a request.
  size_t block_bytes(size_t requested) const {
    const size_t max_round = options_.pinned.max_round_bytes.value_or(SIZE_MAX);
    const bool rounds = requested <= max_round && requested <= max_cached_bytes();
    if (options_.pytorch_compatible) return rounds ? std::bit_ceil(requested) : requested;
    size_t in_pages = 4096;
    while (in_pages < requested) in_pages += 4096;
    if (!rounds || requested <= 32768) return in_pages;
    size_t step = 4096;
    while (step * 16 < requested) step *= 2;
    size_t in_steps = step * 8;
    while (in_steps < requested) in_steps += step;
    return in_steps <= max_cached_bytes() ? in_steps : in_pages;
  }

  // Returns the size of the cached block that serves the request; nullopt if new memory is needed.
  std::optional<size_t> best_cached_bytes(size_t requested, size_t pool) const {
    const size_t least = block_bytes(requested);
    const size_t most = options_.pytorch_compatible
                            ? std::bit_ceil(requested)
                            : requested + std::max<size_t>(requested / 4, 4096);
    std::optional<size_t> best;
    for (const ModelBlock& block : cached) {
      if (block.pool != pool || block.bytes < least || block.bytes > most) continue;
      if (!best || block.bytes < *best) best = block.bytes;
    }
    return best;
  }

  // Takes new memory from the reserve segment. Returns false if it does not fit.
  bool cut_reserve(size_t bytes) {
    const size_t cut = (bytes + 4095) / 4096 * 4096;
    if (cut > reserve_left_bytes_) return false;
    reserve_left_bytes_ -= cut;
    return true;
  }

  void finish_free(ModelBlock block) {
    if (!block.captures.empty()) {
      in_graph.push_back(std::move(block));
    } else {
      pending.push_back(std::move(block));
    }
  }

  // Performs the common part of allocate, free and trim: records events where possible and frees
  // finished blocks.
  void sweep() {
    std::vector<ModelBlock> still_pending;
    for (ModelBlock& block : pending) {
      std::erase_if(block.uses, [&](size_t use) {
        if (streams[use].is_capturing) return false;
        block.wait_until[use] = std::max(block.wait_until[use], streams[use].queued_count);
        return true;
      });
      std::erase_if(block.wait_until, [&](const auto& wait) {
        return streams[wait.first].done_count >= wait.second;
      });
      if (!block.uses.empty() || !block.wait_until.empty()) {
        still_pending.push_back(std::move(block));
      } else if (block.is_reserved || block.bytes <= max_cached_bytes()) {
        cached.push_back(std::move(block));
      } else {
        ++host_frees;
      }
    }
    pending = std::move(still_pending);
  }

  void trim() {
    sweep();
    const auto is_open = [&](const ModelBlock& block) { return pools[block.pool].is_freeable(); };
    host_frees += std::erase_if(
        cached, [&](const ModelBlock& block) { return is_open(block) && !block.is_reserved; });
    for (ModelBlock& block : cached) block.pool = is_open(block) ? 0 : block.pool;
    for (size_t pool = 1; pool < pools.size(); ++pool) {
      if (pools[pool].is_freeable() && !has_blocks(pool)) pools[pool].exists = false;
    }
  }

  bool has_blocks(size_t pool) const {
    for (const auto* list : {&live, &pending, &in_graph, &cached}) {
      for (const ModelBlock& block : *list) {
        if (block.pool == pool) return true;
      }
    }
    return false;
  }

  std::vector<ModelStream> streams;
  std::array<ModelPool, 3> pools{};  // pools[0] is the default pool
  std::vector<ModelBlock> live;
  std::vector<ModelBlock> pending;
  std::vector<ModelBlock> in_graph;
  std::vector<ModelBlock> cached;
  size_t host_allocs = 0;
  size_t host_frees = 0;

 private:
  size_t max_cached_bytes() const { return options_.pinned.max_cached_bytes.value_or(SIZE_MAX); }

  const AllocatorOptions options_;
  size_t reserve_left_bytes_;
};

}  // namespace ashlar
