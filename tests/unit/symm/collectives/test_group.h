// SPDX-License-Identifier: Apache-2.0
//
// A group for tests of collectives: pads, guarded buffers, and a CollectiveRunner for each rank.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "symm/collectives/collective_context.h"
#include "unit/symm/signals/ranks.h"

namespace ashlar::symm::testing {

inline const Failure kNoFailure;
inline Limits test_limits() { return {kNoFailure, long_deadline()}; }
// Returns limits for calls that are expected to time out.
inline Limits short_limits() { return {kNoFailure, short_deadline()}; }

class TestGroup {
 public:
  TestGroup(int world_size, size_t buffer_bytes)
      : pads_(world_size), buffers_(world_size, buffer_bytes), bases_(buffers_.bases()) {
    for (int rank = 0; rank < world_size; ++rank) {
      views_.push_back(pads_.pads_of(rank));
      runners_.push_back(std::make_unique<CollectiveRunner>());
    }
  }

  int size() const { return static_cast<int>(views_.size()); }
  CollectiveContext context(int rank) const {
    return {.pads = views_[static_cast<size_t>(rank)],
            .runner = *runners_[static_cast<size_t>(rank)],
            .channel = 1};
  }
  SymmetricRange range(int64_t offset_bytes = 0, uint32_t memory = 0) const {
    return {.bases = bases_,
            .buffer_bytes = buffers_.bytes(),
            .offset_bytes = offset_bytes,
            .memory = memory};
  }
  RankMemory& buffers() { return buffers_; }
  RankPads& pads() { return pads_; }

  // Returns random bytes, which differ between ranks and seeds and are finite numbers in every
  // type.
  static std::vector<std::byte> draw(int rank, size_t bytes, unsigned seed) {
    std::mt19937 random(seed * 1000 + static_cast<unsigned>(rank));
    std::vector<std::byte> out(bytes);
    for (std::byte& byte : out) byte = static_cast<std::byte>(random() & 0x3F);
    return out;
  }
  void fill(int rank, size_t offset, const std::vector<std::byte>& with) {
    if (!with.empty()) std::memcpy(buffers_.memory_of(rank) + offset, with.data(), with.size());
  }
  std::vector<std::byte> read(int rank, size_t offset, size_t bytes) const {
    return {buffers_.memory_of(rank) + offset, buffers_.memory_of(rank) + offset + bytes};
  }

 private:
  RankPads pads_;
  RankMemory buffers_;
  std::vector<std::byte*> bases_;
  std::vector<SignalPads> views_;
  std::vector<std::unique_ptr<CollectiveRunner>> runners_;
};

}  // namespace ashlar::symm::testing
