// SPDX-License-Identifier: Apache-2.0
//
// Layout of the buffer: unused bytes up to the next page, the heap in whole pages, the program's
// data. The space for the program's data is rounded up to a power of two, so that different
// programs usually get buffers of the same size and can use the heap together. Pages that are never
// written use no memory.
#include "shmem/symmetric_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "base/align.h"
#include "base/units.h"
#include "shmem/errors.h"

namespace ashlar::shmem {
namespace {

constexpr size_t kViewAlignment = kGiB;
constexpr size_t kMinProgramDataBytes = kMiB;

size_t whole_pages(size_t bytes) {
  const std::optional<uint64_t> rounded = try_align_up(bytes, page_bytes());
  if (!rounded) throw_invalid_argument("a heap of ", bytes, " bytes exceeds the address space");
  return *rounded;
}

size_t buffer_bytes(size_t heap_bytes, size_t program_data_bytes) {
  const size_t data_room = std::bit_ceil(std::max(program_data_bytes, kMinProgramDataBytes));
  size_t total = 0;
  if (__builtin_add_overflow(whole_pages(heap_bytes), page_bytes() + data_room, &total)) {
    throw_invalid_argument("a heap of ", heap_bytes, " bytes exceeds the address space");
  }
  return total;
}

bool is_within(const void* address, size_t bytes, const std::byte* begin, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const auto first = reinterpret_cast<uintptr_t>(begin);
  return start >= first && start - first <= size && bytes <= size - (start - first);
}

}  // namespace

SymmetricMemory::SymmetricMemory(symm::Heap& heap, size_t heap_bytes, ProgramData& program_data)
    : heap_bytes_(heap_bytes),
      program_data_(program_data),
      buffer_(heap.allocate(buffer_bytes(heap_bytes, program_data.bytes()))) {
  const auto address = reinterpret_cast<uintptr_t>(buffer_.data());
  heap_offset_ = align_up(address, page_bytes()) - address;
  program_data_offset_ = heap_offset_ + whole_pages(heap_bytes);
  program_data.move_to(buffer_.data() + program_data_offset_);
  map_heap_view();
}

SymmetricMemory::~SymmetricMemory() {
  if (reservation_ != nullptr) ::munmap(reservation_, reservation_bytes_);
}

// If the system refuses the address range or the second mapping, the view is the heap in the buffer
// itself, which is only page-aligned.
void SymmetricMemory::map_heap_view() {
  std::byte* const in_buffer = buffer_.data() + heap_offset_;
  heap_view_ = in_buffer;
  heap_alignment_ = page_bytes();
  const size_t bytes = whole_pages(heap_bytes_);
  void* reserved = ::mmap(nullptr, bytes + kViewAlignment, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return;
  reservation_ = static_cast<std::byte*>(reserved);
  reservation_bytes_ = bytes + kViewAlignment;
  const auto begin = reinterpret_cast<uintptr_t>(reserved);
  std::byte* const view = reservation_ + (align_up(begin, kViewAlignment) - begin);
  if (!alias_pages(in_buffer, bytes, view)) return;
  heap_view_ = view;
  heap_alignment_ = kViewAlignment;
}

bool SymmetricMemory::is_in_heap(const void* address, size_t bytes) const {
  return is_within(address, bytes, heap_view_, heap_bytes_);
}

std::optional<size_t> SymmetricMemory::offset_of(const void* address, size_t bytes) const {
  if (is_in_heap(address, bytes)) {
    return heap_offset_ + static_cast<size_t>(static_cast<const std::byte*>(address) - heap_view_);
  }
  if (!program_data_error_.empty()) return std::nullopt;
  const size_t offset = program_data_.offset_of(address, bytes);
  if (offset == program_data_.bytes()) return std::nullopt;
  return program_data_offset_ + offset;
}

}  // namespace ashlar::shmem
