// SPDX-License-Identifier: Apache-2.0
//
// Typed ids, device addresses and address ranges: values that every other header uses. Also
// converts stream handles and device pointers of a vendor's runtime to these types and back,
// without including a vendor header:
//
//   ashlar::StreamId id = ashlar::to_stream_id(cuda_stream);          // from a cudaStream_t
//   auto handle = ashlar::to_stream_handle<cudaStream_t>(id);         // and back
//   float* pointer = buffer.address().as<float>();                    // for a kernel's argument
//   ashlar::DeviceAddress address = ashlar::DeviceAddress::of(pointer);
//
// Errors: none.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>  // std::hash
#include <type_traits>

namespace ashlar {

// A 64-bit identifier that cannot be mixed up with an identifier of another kind or with a number.
// The issuer defines the value: the id of a CUDA stream is its driver handle.
template <typename Tag, typename Value = uint64_t>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Value value) : value_(value) {}
  constexpr Value value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  Value value_ = 0;
};

// A 32-bit identifier, for indexes into large tables.
template <typename Tag>
using SmallId = Id<Tag, uint32_t>;

using DeviceIndex = Id<struct DeviceTag>;  // position of a device within its back end
using StreamId = Id<struct StreamTag>;     // an ordered queue of device work
using EventId = Id<struct EventTag>;       // a marker that can be recorded in a stream
using ExtentId = Id<struct ExtentTag>;     // physical memory from one create call
using GraphId = Id<struct GraphTag>;       // work captured from streams, to be launched later
using NodeId = Id<struct NodeTag>;         // one piece of work in a graph
using CaptureId = Id<struct CaptureTag>;   // one capture, from its begin to its end

// The stream that every device has. It is never created or destroyed.
inline constexpr StreamId kDefaultStream{};

// Converts a driver's stream handle (cudaStream_t, hipStream_t). Null and the legacy default stream
// (cudaStreamLegacy) both map to kDefaultStream.
// REQUIRES: `handle` is not the per-thread default stream (cudaStreamPerThread), which is a
// different stream in every thread.
template <typename Handle>
requires std::is_pointer_v<Handle> StreamId to_stream_id(Handle handle) {
  constexpr uint64_t kLegacyDefaultStream = 1;  // its value in CUDA and HIP
  const auto value = reinterpret_cast<uint64_t>(handle);
  return value == kLegacyDefaultStream ? kDefaultStream : StreamId(value);
}

// Returns the driver's handle of a stream; null for kDefaultStream.
template <typename Handle = void*>
requires std::is_pointer_v<Handle> Handle to_stream_handle(StreamId stream) {
  return reinterpret_cast<Handle>(stream.value());
}

// Identifies a pool of an allocator. As in PyTorch, pools for captures and pools created by the
// user are numbered separately; {0, 0} is the default pool.
struct PoolId {
  uint64_t capture = 0;
  uint64_t user = 0;

  constexpr bool is_default() const { return capture == 0 && user == 0; }
  friend constexpr auto operator<=>(const PoolId&, const PoolId&) = default;
};

// An address in device memory. Not a pointer, so that the host cannot dereference it by accident.
class DeviceAddress {
 public:
  constexpr DeviceAddress() = default;
  constexpr explicit DeviceAddress(uint64_t value) : value_(value) {}
  // Returns the address that a device pointer holds.
  static DeviceAddress of(const volatile void* pointer) {
    return DeviceAddress(reinterpret_cast<uint64_t>(pointer));
  }

  constexpr uint64_t value() const { return value_; }
  constexpr bool is_null() const { return value_ == 0; }
  // Returns a device pointer, for kernel arguments and vendor libraries. The host must not
  // dereference it.
  template <typename T = void>
  T* as() const {
    return reinterpret_cast<T*>(value_);
  }

  friend constexpr auto operator<=>(DeviceAddress, DeviceAddress) = default;
  friend constexpr DeviceAddress operator+(DeviceAddress address, uint64_t bytes) {
    return DeviceAddress(address.value_ + bytes);
  }
  friend constexpr uint64_t operator-(DeviceAddress end, DeviceAddress begin) {
    return end.value_ - begin.value_;
  }

 private:
  uint64_t value_ = 0;
};

// The half-open range [begin, begin + bytes).
struct AddressRange {
  DeviceAddress begin{};
  size_t bytes = 0;

  constexpr DeviceAddress end() const { return begin + bytes; }
  constexpr bool overflows() const { return begin.value() + bytes < begin.value(); }
  constexpr bool contains(DeviceAddress address) const {
    return address >= begin && address - begin < bytes;
  }
  constexpr bool contains(const AddressRange& part) const {
    return !part.overflows() && part.begin >= begin && part.end() <= end();
  }
  friend constexpr bool operator==(const AddressRange&, const AddressRange&) = default;
};

}  // namespace ashlar

template <typename Tag, typename Value>
struct std::hash<ashlar::Id<Tag, Value>> {
  size_t operator()(ashlar::Id<Tag, Value> id) const noexcept {
    return std::hash<Value>()(id.value());
  }
};
