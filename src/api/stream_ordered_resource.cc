// SPDX-License-Identifier: Apache-2.0
//
// Adapts the allocator to cuda::mr: checks arguments and converts handles.
#include "ashlar/stream_ordered_resource.h"

#include <bit>
#include <new>
#include <utility>

#include "api/allocator_impl.h"
#include "api/block_allocation.h"
#include "api/unwrap.h"
#include "ashlar/allocator.h"
#include "base/text.h"

namespace ashlar {
namespace {

// Handles that CUDA and HIP reserve for their default streams.
constexpr uint64_t kLegacyStream = 1;
constexpr uint64_t kPerThreadStream = 2;

void check_alignment(size_t alignment) {
  if (std::has_single_bit(alignment) && alignment <= StreamOrderedMemory::kAlignmentBytes) return;
  unwrap(
      Status::invalid_argument(text("alignment ", alignment, " B (expected a power of two up to ",
                                    StreamOrderedMemory::kAlignmentBytes, ")")));
}

}  // namespace

void* StreamOrderedMemory::allocate(size_t bytes, size_t alignment, StreamId stream) const {
  check_alignment(alignment);
  return allocator_->allocate_raw(bytes, stream).as();
}

// Waits for the default stream, whose queued work may still use memory that was freed on it
// earlier.
void* StreamOrderedMemory::allocate_sync(size_t bytes, size_t alignment) const {
  void* memory = allocate(bytes, alignment, kDefaultStream);
  Status waited = allocator_->device().synchronize_stream(kDefaultStream);
  if (waited.ok()) return memory;
  deallocate_sync(memory);
  unwrap(std::move(waited));
  return nullptr;
}

void StreamOrderedMemory::deallocate(void* memory, StreamId stream) const noexcept {
  if (memory == nullptr || is_inherited()) return;
  try {
    allocator_->record_stream(DeviceAddress::of(memory), stream);
  } catch (const DeviceError&) {
    // The stream could not be recorded, for example by a plug-in. Leaks the memory, because work
    // queued in the stream may still use it.
    return;
  } catch (const std::bad_alloc&) {
    // Host memory ran out. Waits for the stream's work instead of recording the stream; if the wait
    // fails, leaks the memory.
    if (!allocator_->device().synchronize_stream(stream).ok()) return;
  }
  deallocate_sync(memory);
}

// If the device fails, the block stays pending; the allocator's next allocation reports the error
// and retries the free.
void StreamOrderedMemory::deallocate_sync(void* memory) const noexcept {
  if (memory == nullptr || is_inherited()) return;
  Engine& engine = *AllocatorAccess::impl(*allocator_).engine;
  free_block(engine, block_at(engine, DeviceAddress::of(memory)), __builtin_return_address(0));
}

bool StreamOrderedMemory::is_inherited() const {
  return !AllocatorAccess::impl(*allocator_).engine->in_creating_process();
}

StreamId StreamOrderedMemory::stream_of(uint64_t handle) const {
  const bool has_driver_handles = allocator_->device().properties().backend != "sim";
  if (!has_driver_handles || handle > kPerThreadStream) return StreamId(handle);
  if (handle == kPerThreadStream) {
    unwrap(Status::invalid_argument(
        "the per-thread default stream is a different stream in every thread (expected a stream "
        "that the program created, or the legacy default stream)"));
  }
  return handle == kLegacyStream ? kDefaultStream : StreamId(handle);
}

}  // namespace ashlar
