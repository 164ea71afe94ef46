// SPDX-License-Identifier: Apache-2.0
//
// PEs that have met: a group of ashlar::symm, with the symmetric heap as its ranks see it, and some
// memory of its own for what collectives tell each other. Thread safe as groups are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ashlar/symmetric.h"

namespace ashlar::shmem {

// What a PE asks for in a collective call, for comparing: which call, and its numbers.
struct Wish {
  const char* call = "";  // "shmem_malloc"
  std::array<uint64_t, 3> numbers{};
  size_t number_count = 1;
};

class Meeting {
 public:
  // Each PE's share of the group's own memory.
  static constexpr size_t kShareBytes = size_t{16} * 1024;

  // Collective. `heap_memory`: the symmetric heap.
  Meeting(symm::Heap& heap, symm::Group group, const symm::Buffer& heap_memory);

  symm::Group& group() { return group_; }
  const symm::Handle& memory() const { return memory_; }
  int rank() const { return memory_.rank(); }
  int world_size() const { return memory_.world_size(); }

  // --- collective
  // Throws, on all PEs, if they do not all ask for the same: who asked for what.
  void agree(const Wish& wish);
  // A number of each, by rank, after checking that all call the same.
  std::vector<uint64_t> gather(const char* call, uint64_t number);
  // Each PE's bytes, one after the other, until the next collective. REQUIRES: kShareBytes at most.
  const std::byte* gather_bytes(const void* own, size_t bytes);

 private:
  struct Record {
    std::array<uint64_t, 3> numbers{};
    std::array<char, 32> name{};
  };
  std::vector<Record> exchange(const Wish& wish);

  symm::Group group_;
  symm::Handle memory_;
  symm::Buffer shares_;
  symm::Handle shared_;
};

}  // namespace ashlar::shmem
