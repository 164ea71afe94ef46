// SPDX-License-Identifier: Apache-2.0
//
// An allocator's device memory for code written against CCCL's cuda::mr concepts (Thrust, CUB,
// RAPIDS):
//
//   ashlar::StreamOrderedResource<cuda::mr::device_accessible> resource(allocator);
//   void* memory = resource.allocate(stream, bytes, alignment);   // stream: a cuda::stream_ref
//
// The resource has the members of both generations of these concepts: cuda::mr::async_resource up
// to CCCL 3.0 (allocate_async), and cuda::mr::resource since CCCL 3.1 (allocate with a stream,
// allocate_sync). No vendor header is needed: the properties are template arguments, and a stream
// is anything that holds a driver's handle.
//
// Errors: functions throw.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

class Allocator;

// A driver's stream handle, such as cudaStream_t or hipStream_t.
template <typename T>
concept StreamHandle = std::is_pointer_v<T> && !std::is_void_v<std::remove_pointer_t<T>>;

// A StreamId, a StreamHandle, or a wrapper of a StreamHandle, such as cuda::stream_ref or
// rmm::cuda_stream_view.
template <typename T>
concept StreamLike = std::same_as<T, StreamId> || StreamHandle<T> || requires(const T& stream) {
  { stream.get() } -> StreamHandle;
} || requires(const T& stream) {
  { stream.value() } -> StreamHandle;
};

// The part of StreamOrderedResource that does not depend on its properties. Copies refer to the
// same allocator, which must outlive all copies. Thread safe.
class ASHLAR_EXPORT StreamOrderedMemory {
 public:
  // The largest alignment that may be requested. Every allocation has this alignment, except from a
  // plug-in (see Allocator::allocate).
  static constexpr size_t kAlignmentBytes = 256;

  explicit StreamOrderedMemory(Allocator& allocator) : allocator_(&allocator) {}
  Allocator& allocator() const { return *allocator_; }

  // Allocates memory for work queued in the stream from now on. 0 bytes yield null. Throws
  // OutOfMemory (a std::bad_alloc), DeviceError, or, unless the alignment is a power of two up to
  // kAlignmentBytes, InvalidArgument.
  void* allocate(size_t bytes, size_t alignment, StreamId stream) const;
  // Allocates memory on the default stream, and waits for that stream, so that any stream may use
  // the memory immediately. Must not be called during a capture.
  void* allocate_sync(size_t bytes, size_t alignment) const;
  // Frees memory that work queued in the stream so far may still use. If the stream's use cannot be
  // recorded, the memory is leaked and no error is reported. After any other device error, the
  // memory stays pending, and the allocator's next allocation or trim reports the error. Terminates
  // the process if the memory does not belong to the allocator. Does nothing in a forked child of
  // the process that created the allocator.
  void deallocate(void* memory, StreamId stream) const noexcept;
  // Like deallocate, but for memory that no work uses any more.
  void deallocate_sync(void* memory) const noexcept;

  // Converts a driver's handle like to_stream_id, but throws InvalidArgument for the per-thread
  // default stream, which is a different stream in every thread. A handle of a simulated device is
  // the stream's id.
  StreamId stream_of(uint64_t handle) const;

 private:
  bool is_inherited() const;

  Allocator* allocator_;
};

// Gives a resource a property: defines the friend function by which CCCL detects the property.
template <typename Resource, typename Property>
struct HasProperty {
  friend constexpr void get_property(const Resource&, Property) noexcept {}
};

// A memory resource on an allocator. `Properties` are CCCL's property types, such as
// cuda::mr::device_accessible. Allocations throw InvalidArgument for the per-thread default stream
// (StreamOrderedMemory::stream_of); deallocations on that stream terminate the process.
template <typename... Properties>
class StreamOrderedResource
    : public HasProperty<StreamOrderedResource<Properties...>, Properties>... {
 public:
  static constexpr size_t kAlignmentBytes = StreamOrderedMemory::kAlignmentBytes;

  explicit StreamOrderedResource(Allocator& allocator) : memory_(allocator) {}
  Allocator& allocator() const { return memory_.allocator(); }

  // Equal resources can free each other's memory.
  friend bool operator==(const StreamOrderedResource& a, const StreamOrderedResource& b) {
    return &a.allocator() == &b.allocator();
  }

  // The members of cuda::mr::resource, since CCCL 3.1.

  template <StreamLike Stream>
  void* allocate(Stream stream, size_t bytes, size_t alignment = kAlignmentBytes) {
    return memory_.allocate(bytes, alignment, id_of(stream));
  }
  template <StreamLike Stream>
  void deallocate(Stream stream, void* memory, size_t, size_t = kAlignmentBytes) noexcept {
    memory_.deallocate(memory, id_of(stream));
  }
  void* allocate_sync(size_t bytes, size_t alignment = kAlignmentBytes) {
    return memory_.allocate_sync(bytes, alignment);
  }
  void deallocate_sync(void* memory, size_t, size_t = kAlignmentBytes) noexcept {
    memory_.deallocate_sync(memory);
  }

  // The members of cuda::mr::async_resource, up to CCCL 3.0.

  template <StreamLike Stream>
  void* allocate_async(size_t bytes, size_t alignment, Stream stream) {
    return memory_.allocate(bytes, alignment, id_of(stream));
  }
  template <StreamLike Stream>
  void* allocate_async(size_t bytes, Stream stream) {
    return memory_.allocate(bytes, kAlignmentBytes, id_of(stream));
  }
  template <StreamLike Stream>
  void deallocate_async(void* memory, size_t, size_t, Stream stream) noexcept {
    memory_.deallocate(memory, id_of(stream));
  }
  template <StreamLike Stream>
  void deallocate_async(void* memory, size_t, Stream stream) noexcept {
    memory_.deallocate(memory, id_of(stream));
  }
  void* allocate(size_t bytes, size_t alignment = kAlignmentBytes) {
    return memory_.allocate_sync(bytes, alignment);
  }
  void deallocate(void* memory, size_t, size_t = kAlignmentBytes) noexcept {
    memory_.deallocate_sync(memory);
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
