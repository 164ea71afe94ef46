// SPDX-License-Identifier: Apache-2.0
//
// A set of PEs that have joined a symm::Group, with the symmetric memory mapped by all of them and
// scratch memory for exchanging small records. Thread safe, except that exchanges must not run
// concurrently, because they share the scratch memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ashlar/symmetric.h"

namespace ashlar::shmem {

// The name and the arguments of a collective call, for checking that all PEs make the same call.
struct CollectiveCall {
  const char* name = "";  // "shmem_malloc"
  std::array<uint64_t, 3> arguments{};
  size_t argument_count = 1;
};

class PeGroup {
 public:
  static constexpr size_t kScratchBytesPerPe = size_t{16} * 1024;

  // Collective over the group.
  PeGroup(symm::Heap& heap, symm::Group group, const symm::SymmetricBuffer& symmetric_memory);

  symm::Group& group() { return group_; }
  const symm::Handle& memory() const { return memory_; }
  int rank() const { return memory_.rank(); }
  int world_size() const { return memory_.world_size(); }

  // All functions below are collective.

  // Throws on every PE if the PEs' calls differ.
  void check_same_call(const CollectiveCall& call);
  // Returns one number per PE, in rank order. Throws if the PEs call different functions.
  std::vector<uint64_t> gather(const char* name, uint64_t number);
  // Returns the concatenation of all PEs' bytes, valid until the next collective.
  // REQUIRES: bytes <= kScratchBytesPerPe, and the same on all PEs.
  const std::byte* gather_bytes(const void* own_data, size_t bytes);

 private:
  struct Record {
    std::array<uint64_t, 3> arguments{};
    std::array<char, 32> name{};
  };
  std::vector<Record> exchange(const CollectiveCall& call);

  symm::Group group_;
  symm::Handle memory_;
  symm::SymmetricBuffer scratch_;
  symm::Handle scratch_handle_;
};

}  // namespace ashlar::shmem
