// SPDX-License-Identifier: Apache-2.0
//
// Makes the global and static variables of the program symmetric: copies the writable pages of the
// executable to shared memory, and maps the shared memory over the original addresses. Variables of
// shared libraries are not included. A forked child gets private copies of the pages, with the
// exceptions listed in forked_pages.h. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shmem/process_pages.h"

namespace ashlar::shmem {

// Whether the program's data is symmetric and, if not, the reason. PEs exchange these values.
enum class ProgramDataState : uint8_t {
  kSymmetric,
  kOtherThreads,       // the program had started threads, which could write during the copy
  kBusyThreads,        // a thread of this library did not become idle in time
  kStaticallyLinked,   // the executable contains the C library, whose data must not be shared
  kNoProcFileSystem,   // threads and mappings are unknown
  kUnusualProtection,  // a page is shared or executable, or is not both readable and writable
  kMappingRefused,
};
// Returns the reason for a state other than kSymmetric, such as "the program had started threads".
std::string_view reason(ProgramDataState state);

class ProgramData {
 public:
  // Finds the writable segments of the executable, and checks that the process has one thread.
  // REQUIRES: this library has not yet started threads.
  ProgramData();

  // The sum of the sizes of all segments; a multiple of the page size.
  size_t bytes() const { return bytes_; }
  // A hash of the sizes and relative addresses of all parts of the executable, and of its notes,
  // which usually contain a build ID. Equal in all runs of a program, and with high probability
  // different for different programs.
  uint64_t layout_hash() const { return layout_hash_; }
  ProgramDataState state() const { return state_; }

  // Copies the segments to `shared` and maps `shared` over them. On failure, changes `state`; the
  // variables keep their values, but some segments may already be shared. Does nothing if the state
  // is not kSymmetric. REQUIRES: `shared` is page-aligned shared memory of `bytes()` zero bytes.
  // Every thread that was started after the construction blocks all signals, and has stopped
  // writing to the segments when it sleeps for the first time.
  void move_to(std::byte* shared);

  // Returns the offset of an address from the start of the shared memory, or `bytes()` if the range
  // is not within a segment.
  size_t offset_of(const void* address, size_t bytes) const;

 private:
  // A range of whole pages, without those that are read-only after relocation.
  struct Segment {
    std::byte* begin = nullptr;
    size_t bytes = 0;
  };

  static bool has_usual_protection(const Segment& segment, const std::vector<Mapping>& mappings);
  ProgramDataState try_move_to(std::byte* shared) const;

  std::vector<Segment> segments_;  // in shared memory, the segments follow each other in this order
  size_t bytes_ = 0;
  uint64_t layout_hash_ = 0;
  ProgramDataState state_ = ProgramDataState::kSymmetric;
};

}  // namespace ashlar::shmem
