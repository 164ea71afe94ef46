// SPDX-License-Identifier: Apache-2.0
//
// The locks of many arenas at once, in the order of their serials.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "engine/paged/paged_pool.h"

namespace ashlar::paged {

// While it lives, no block of these arenas changes hands. The analysis of locks cannot count, so
// that it is told nothing.
class AllArenas {
 public:
  explicit AllArenas(const PagedPool& pool) {
    for (const auto& [stream, arena] : pool.arenas) sorted_.push_back(arena.get());
    std::sort(sorted_.begin(), sorted_.end(),
              [](const Arena* a, const Arena* b) { return a->serial < b->serial; });
    arenas_ = sorted_;
    lock();
  }
  // REQUIRES: by serial. Not copied: a hit that reaches a new peak comes here, and hits allocate
  // nothing.
  explicit AllArenas(const std::vector<Arena*>& arenas) : arenas_(arenas) { lock(); }
  ~AllArenas() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    for (Arena* arena : arenas_) arena->lock.unlock_unbiased();
  }
  AllArenas(const AllArenas&) = delete;
  AllArenas& operator=(const AllArenas&) = delete;

 private:
  void lock() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    for (Arena* arena : arenas_) arena->lock.lock_unbiased();
  }

  std::vector<Arena*> sorted_;
  std::span<Arena* const> arenas_;
};

}  // namespace ashlar::paged
