// SPDX-License-Identifier: Apache-2.0
//
// The symmetric memory of this PE, one buffer of ashlar::symm that holds the symmetric heap and the
// program's data, and the translation of addresses to offsets in the buffer. Offsets are the same
// on all PEs. Thread safe after the last call of a setter.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ashlar/symmetric_heap.h"
#include "shmem/program_data.h"

namespace ashlar::shmem {

class SymmetricMemory {
 public:
  // Moves the program's data to symmetric memory if its state permits that.
  SymmetricMemory(symm::Heap& heap, size_t heap_bytes, ProgramData& program_data);
  ~SymmetricMemory();
  SymmetricMemory(const SymmetricMemory&) = delete;
  SymmetricMemory& operator=(const SymmetricMemory&) = delete;

  const symm::SymmetricBuffer& buffer() const { return buffer_; }

  // The symmetric heap, at an address that is a multiple of `heap_alignment`.
  std::byte* heap() const { return heap_view_; }
  // The largest alignment for which equal offsets on all PEs give equally aligned addresses.
  size_t heap_alignment() const { return heap_alignment_; }
  // Sets the minimum over all PEs. The constructor sets the alignment on this PE.
  void set_heap_alignment(size_t alignment) { heap_alignment_ = alignment; }
  bool is_in_heap(const void* address, size_t bytes) const;

  // Disables the translation of addresses of the program's data. `error` says why.
  void set_program_data_error(std::string error) { program_data_error_ = std::move(error); }
  const std::string& program_data_error() const { return program_data_error_; }

  // Returns the offset of a range in the buffer, or nothing if it is not symmetric.
  std::optional<size_t> offset_of(const void* address, size_t bytes) const;

 private:
  void map_heap_view();

  const size_t heap_bytes_;
  const ProgramData& program_data_;
  symm::SymmetricBuffer buffer_;
  size_t heap_offset_ = 0;          // in the buffer; the address there is page-aligned
  size_t program_data_offset_ = 0;  // in the buffer; the address there is page-aligned
  std::string program_data_error_;  // empty: the program's data is symmetric

  // The heap is mapped a second time at an aligned address, because the buffer is only
  // page-aligned.
  std::byte* heap_view_ = nullptr;
  size_t heap_alignment_ = 0;
  std::byte* reservation_ = nullptr;  // the address range reserved for the view; null: none
  size_t reservation_bytes_ = 0;
};

}  // namespace ashlar::shmem
