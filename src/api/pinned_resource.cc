// SPDX-License-Identifier: Apache-2.0
//
// Alignment is what HostAllocator does not promise beyond pages.
#include "ashlar/pinned_resource.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "api/unwrap.h"
#include "ashlar/host.h"
#include "base/text.h"

namespace ashlar {
namespace {

constexpr size_t kPageBytes = 4096;  // what HostAllocator::allocate promises

// Beyond pages, the memory begins at a multiple of the alignment after the real beginning, which
// is written right before it. There is room: the real beginning is a page's, and not the same.
char* aligned_after(void* real, size_t alignment) {
  char* const first = static_cast<char*>(real);
  const size_t past = reinterpret_cast<uintptr_t>(first) % alignment;
  char* const aligned = first + (alignment - past);
  std::memcpy(aligned - sizeof(void*), &real, sizeof(void*));
  return aligned;
}

void* real_before(void* aligned) {
  void* real = nullptr;
  std::memcpy(&real, static_cast<char*>(aligned) - sizeof(void*), sizeof(void*));
  return real;
}

}  // namespace

void* PinnedResource::do_allocate(size_t bytes, size_t alignment) {
  if (!std::has_single_bit(alignment)) {
    unwrap(Status::invalid_argument(
        text("an alignment of ", alignment, " B (expected a power of two)")));
  }
  const size_t wanted = std::max<size_t>(bytes, 1);
  if (alignment <= kPageBytes) return host_->allocate_raw(wanted);
  if (wanted > SIZE_MAX - alignment) {
    unwrap(Status::out_of_memory(text("no host has ", bytes, " B aligned to ", alignment)));
  }
  return aligned_after(host_->allocate_raw(wanted + alignment), alignment);
}

void PinnedResource::do_deallocate(void* memory, size_t, size_t alignment) {
  host_->free_raw(alignment <= kPageBytes ? memory : real_before(memory));
}

bool PinnedResource::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
  const auto* pinned = dynamic_cast<const PinnedResource*>(&other);
  return pinned != nullptr && pinned->host_ == host_;
}

}  // namespace ashlar
