// The locks of many arenas at once, in the order of their serials.
#pragma once

#include <vector>

#include "engine/paged/paged_pool.h"

namespace ashlar::paged {

// While it lives, no block of these arenas changes hands. The analysis of locks cannot count, so
// that it is told nothing.
class AllArenas {
 public:
  explicit AllArenas(const PagedPool& pool) {
    for (const auto& [stream, arena] : pool.arenas) arenas_.push_back(arena.get());
    std::sort(arenas_.begin(), arenas_.end(),
              [](const Arena* a, const Arena* b) { return a->serial < b->serial; });
    lock();
  }
  // REQUIRES: by serial.
  explicit AllArenas(std::vector<Arena*> arenas) : arenas_(std::move(arenas)) { lock(); }
  ~AllArenas() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    for (Arena* arena : arenas_) arena->lock.unlock_plainly();
  }
  AllArenas(const AllArenas&) = delete;
  AllArenas& operator=(const AllArenas&) = delete;

 private:
  void lock() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    for (Arena* arena : arenas_) arena->lock.lock_plainly();
  }

  std::vector<Arena*> arenas_;
};

}  // namespace ashlar::paged
