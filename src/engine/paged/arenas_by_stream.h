// SPDX-License-Identifier: Apache-2.0
//
// Which arena serves a stream, asked with every allocation: no lock, and nothing of the thread's,
// so that one thread may work on many streams. Two streams that share a place push each other out,
// and are found the slow way then. Thread safe.
#pragma once

#include <array>
#include <atomic>

#include "base/hash_mix.h"
#include "engine/paged/arena.h"

namespace ashlar::paged {

class ArenasByStream {
 public:
  // Null: it is not here.
  Arena* find(StreamId stream) const {
    Arena* arena = places_[place_of(stream)].load(std::memory_order_acquire);
    return arena != nullptr && arena->stream == stream ? arena : nullptr;
  }
  // REQUIRES: the arena lives as long as this.
  void note(Arena& arena) {
    places_[place_of(arena.stream)].store(&arena, std::memory_order_release);
  }

 private:
  static constexpr int kBits = 6;

  // Handles of streams are addresses, or count from zero.
  static size_t place_of(StreamId stream) { return hash_mix(stream.value()) >> (64 - kBits); }

  std::array<std::atomic<Arena*>, size_t{1} << kBits> places_{};
};

}  // namespace ashlar::paged
