// SPDX-License-Identifier: Apache-2.0
//
// Adds alignments above the page size, which HostAllocator does not support.
#include "ashlar/pinned_resource.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "api/unwrap.h"
#include "ashlar/host.h"
#include "base/text.h"

namespace ashlar {
namespace {

constexpr size_t kPageBytes = 4096;  // the alignment of HostAllocator::allocate

// Returns the next multiple of the alignment after `base`, and stores `base` in the bytes before
// that address. There is always room for the pointer, because `base` is page-aligned and less than
// the result.
char* align_after(void* base, size_t alignment) {
  char* const first = static_cast<char*>(base);
  const size_t excess = reinterpret_cast<uintptr_t>(first) % alignment;
  char* const aligned = first + (alignment - excess);
  std::memcpy(aligned - sizeof(void*), &base, sizeof(void*));
  return aligned;
}

// Returns the address from which align_after computed `aligned`.
void* unaligned_base(void* aligned) {
  void* base = nullptr;
  std::memcpy(&base, static_cast<char*>(aligned) - sizeof(void*), sizeof(void*));
  return base;
}

}  // namespace

void* PinnedResource::do_allocate(size_t bytes, size_t alignment) {
  if (!std::has_single_bit(alignment)) {
    unwrap(Status::invalid_argument(text("alignment ", alignment, " B (expected a power of two)")));
  }
  const size_t wanted = std::max<size_t>(bytes, 1);
  if (alignment <= kPageBytes) return host_->allocate_raw(wanted);
  if (wanted > SIZE_MAX - alignment) {
    unwrap(Status::out_of_memory(
        text(bytes, " B aligned to ", alignment, " B exceed the address space")));
  }
  return align_after(host_->allocate_raw(wanted + alignment), alignment);
}

// Does nothing in a forked child, because containers deallocate in their destructors.
void PinnedResource::do_deallocate(void* memory, size_t, size_t alignment) {
  if (host_->is_inherited()) return;
  host_->free_raw(alignment <= kPageBytes ? memory : unaligned_base(memory));
}

bool PinnedResource::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
  const auto* pinned = dynamic_cast<const PinnedResource*>(&other);
  return pinned != nullptr && pinned->host_ == host_;
}

}  // namespace ashlar
