// Where a driver puts plain allocations, as far as can be seen: among equal free blocks an
// allocator takes the one with the lowest address, so a replay that must guess addresses does
// better with the driver's habits than with any order of its own. Guarded by the address space's
// lock.
//
// Seen in recorded runs on an H200 under driver 580 (docs/design/sim_device.md): addresses come in
// chunks, multiples of 32 MiB, each new one below the others, in the highest gap that is wide
// enough; what is left of a chunk serves later allocations, the lowest place first; a chunk with
// nothing in it goes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace ashlar::sim {

class DriverAddresses {
 public:
  // Addresses below `end`, and never below `begin`; both are rounded to whole chunks.
  DriverAddresses(uint64_t begin, uint64_t end);

  // 0: there is no room.
  uint64_t take(size_t bytes);
  // What did not come from here is left alone.
  void give_back(uint64_t at);

 private:
  struct Chunk {
    size_t bytes = 0;
    size_t used_count = 0;
  };
  std::map<uint64_t, Chunk>::iterator chunk_of(uint64_t at);
  uint64_t new_chunk(size_t bytes);
  void add_gap(uint64_t begin, uint64_t end);

  const uint64_t begin_;
  uint64_t lowest_;                  // of all chunks so far, or the end of the addresses
  std::map<uint64_t, size_t> gaps_;  // bytes, by address: above `lowest_`, left by chunks
  std::map<uint64_t, Chunk> chunks_;
  std::map<uint64_t, size_t> taken_;  // bytes, by address
  std::map<uint64_t, size_t> holes_;  // within chunks; never two side by side in one chunk
};

}  // namespace ashlar::sim
