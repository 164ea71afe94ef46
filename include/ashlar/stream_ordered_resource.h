// SPDX-License-Identifier: Apache-2.0
//
// An allocator's device memory for code written against CCCL's cuda::mr concepts (Thrust, CUB,
// RAPIDS):
//
//   ashlar::StreamOrderedResource<cuda::mr::device_accessible> resource(allocator);
//   void* memory = resource.allocate(stream, bytes, alignment);   // stream: a cuda::stream_ref
//
// It has the members of both generations: cuda::mr::async_resource up to CCCL 3.0 (allocate_async),
// and cuda::mr::resource since (allocate with a stream, allocate_sync). Nothing here needs a
// vendor's header: which properties the resource has is the user's to say, and a stream is whatever
// has a driver's handle.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

class Allocator;

// A driver's own handle of a stream (cudaStream_t, hipStream_t), which is a pointer to something.
template <typename T>
concept StreamHandle = std::is_pointer_v<T> && !std::is_void_v<std::remove_pointer_t<T>>;

// Something that has such a handle (cuda::stream_ref, rmm::cuda_stream_view), is one, or is our id
// of one.
template <typename T>
concept StreamLike = std::same_as<T, StreamId> || StreamHandle<T> || requires(const T& stream) {
  { stream.get() } -> StreamHandle;
} || requires(const T& stream) {
  { stream.value() } -> StreamHandle;
};

// What such a resource does, in our words. Copies stand for the same allocator, which outlives
// them.
class ASHLAR_EXPORT StreamOrderedMemory {
 public:
  // What every allocation is aligned to, and what may be asked for at most.
  static constexpr size_t kAlignmentBytes = 256;

  explicit StreamOrderedMemory(Allocator& allocator) : allocator_(&allocator) {}
  Allocator& allocator() const { return *allocator_; }

  // For work queued in the stream from here on. 0 B give null. Throws OutOfMemory, which is a
  // std::bad_alloc; DeviceError; InvalidArgument for an alignment that is no power of two up to
  // kAlignmentBytes, and for the stream "of each thread", which is many streams under one handle.
  void* take(size_t bytes, size_t alignment, StreamId stream) const;
  // The same for any stream, at once: waits for the default stream. Not during a capture.
  void* take_for_all(size_t bytes, size_t alignment) const;
  // Work queued in the stream so far may still use the memory. A device that fails is told by the
  // allocator's next call; memory that is not the allocator's ends the program.
  void give_back(void* memory, StreamId stream) const noexcept;
  // No work uses the memory any more.
  void give_back_idle(void* memory) const noexcept;

  // A driver's handle as our id: itself, except that the default stream has two handles.
  StreamId stream_of(uint64_t handle) const;

 private:
  Allocator* allocator_;
};

// Says of a resource that it has a property, where CCCL looks for it.
template <typename Resource, typename Property>
struct HasProperty {
  friend constexpr void get_property(const Resource&, Property) noexcept {}
};

template <typename... Properties>
class StreamOrderedResource
    : public HasProperty<StreamOrderedResource<Properties...>, Properties>... {
 public:
  static constexpr size_t kAlignmentBytes = StreamOrderedMemory::kAlignmentBytes;

  explicit StreamOrderedResource(Allocator& allocator) : memory_(allocator) {}
  Allocator& allocator() const { return memory_.allocator(); }

  // Freed by either, memory is the same allocator's.
  friend bool operator==(const StreamOrderedResource& a, const StreamOrderedResource& b) {
    return &a.allocator() == &b.allocator();
  }

  // --- cuda::mr::resource, since CCCL 3.1
  // ---------------------------------------------------------

  template <StreamLike Stream>
  void* allocate(Stream stream, size_t bytes, size_t alignment = kAlignmentBytes) {
    return memory_.take(bytes, alignment, id_of(stream));
  }
  template <StreamLike Stream>
  void deallocate(Stream stream, void* memory, size_t, size_t = kAlignmentBytes) noexcept {
    memory_.give_back(memory, id_of(stream));
  }
  void* allocate_sync(size_t bytes, size_t alignment = kAlignmentBytes) {
    return memory_.take_for_all(bytes, alignment);
  }
  void deallocate_sync(void* memory, size_t, size_t = kAlignmentBytes) noexcept {
    memory_.give_back_idle(memory);
  }

  // --- cuda::mr::async_resource, up to CCCL 3.0
  // ---------------------------------------------------

  template <StreamLike Stream>
  void* allocate_async(size_t bytes, size_t alignment, Stream stream) {
    return memory_.take(bytes, alignment, id_of(stream));
  }
  template <StreamLike Stream>
  void* allocate_async(size_t bytes, Stream stream) {
    return memory_.take(bytes, kAlignmentBytes, id_of(stream));
  }
  template <StreamLike Stream>
  void deallocate_async(void* memory, size_t, size_t, Stream stream) noexcept {
    memory_.give_back(memory, id_of(stream));
  }
  template <StreamLike Stream>
  void deallocate_async(void* memory, size_t, Stream stream) noexcept {
    memory_.give_back(memory, id_of(stream));
  }
  void* allocate(size_t bytes, size_t alignment = kAlignmentBytes) {
    return memory_.take_for_all(bytes, alignment);
  }
  void deallocate(void* memory, size_t, size_t = kAlignmentBytes) noexcept {
    memory_.give_back_idle(memory);
  }

 private:
  template <StreamLike Stream>
  StreamId id_of(const Stream& stream) const {
    if constexpr (std::same_as<Stream, StreamId>) {
      return stream;
    } else if constexpr (StreamHandle<Stream>) {
      return memory_.stream_of(reinterpret_cast<uintptr_t>(stream));
    } else if constexpr (requires { stream.get(); }) {
      return memory_.stream_of(reinterpret_cast<uintptr_t>(stream.get()));
    } else {
      return memory_.stream_of(reinterpret_cast<uintptr_t>(stream.value()));
    }
  }

  StreamOrderedMemory memory_;
};

}  // namespace ashlar
