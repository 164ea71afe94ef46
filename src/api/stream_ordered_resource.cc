// SPDX-License-Identifier: Apache-2.0
//
// Arguments checked, and the allocator called.
#include "ashlar/stream_ordered_resource.h"

#include <bit>
#include <utility>

#include "api/unwrap.h"
#include "ashlar/allocator.h"
#include "base/text.h"

namespace ashlar {
namespace {

// Of CUDA and HIP alike.
constexpr uint64_t kLegacyStream = 1;
constexpr uint64_t kStreamOfEachThread = 2;

DeviceAddress address_of(void* memory) { return DeviceAddress(reinterpret_cast<uint64_t>(memory)); }

void* memory_at(DeviceAddress address) { return reinterpret_cast<void*>(address.value()); }

void check_alignment(size_t alignment) {
  if (std::has_single_bit(alignment) && alignment <= StreamOrderedMemory::kAlignmentBytes) return;
  unwrap(Status::invalid_argument(text("an alignment of ", alignment,
                                       " B (expected a power of two up to ",
                                       StreamOrderedMemory::kAlignmentBytes, ")")));
}

}  // namespace

void* StreamOrderedMemory::take(size_t bytes, size_t alignment, StreamId stream) const {
  check_alignment(alignment);
  return memory_at(allocator_->allocate_raw(bytes, stream));
}

// Memory that served the stream before may still be in use by what is queued there.
void* StreamOrderedMemory::take_for_all(size_t bytes, size_t alignment) const {
  void* memory = take(bytes, alignment, kDefaultStream);
  Status waited = allocator_->device().synchronize_stream(kDefaultStream);
  if (waited.ok()) return memory;
  give_back_idle(memory);
  unwrap(std::move(waited));
  return nullptr;
}

void StreamOrderedMemory::give_back(void* memory, StreamId stream) const noexcept {
  if (memory == nullptr) return;
  try {
    allocator_->record_stream(address_of(memory), stream);
  } catch (const DeviceError&) {  // of a plug-in: who knows when the memory is free? It stays.
    return;
  }
  give_back_idle(memory);
}

// What a device fails to do now, the allocator tries again with its next allocation.
void StreamOrderedMemory::give_back_idle(void* memory) const noexcept {
  try {
    allocator_->free_raw(address_of(memory));
  } catch (const DeviceError&) {  // NOLINT(bugprone-empty-catch): see above
  }
}

StreamId StreamOrderedMemory::stream_of(uint64_t handle) const {
  const bool has_handles = allocator_->device().properties().backend != "sim";
  if (!has_handles || handle > kStreamOfEachThread) return StreamId(handle);
  if (handle == kStreamOfEachThread) {
    unwrap(Status::invalid_argument(
        "the per-thread default stream is another stream in each thread, under one handle "
        "(expected a stream that the program made, or the legacy default stream)"));
  }
  return handle == kLegacyStream ? kDefaultStream : StreamId(handle);
}

}  // namespace ashlar
