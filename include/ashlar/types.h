// SPDX-License-Identifier: Apache-2.0
//
// The words every other header uses: typed ids, device addresses, and ranges of them.
// Values only; no policy, no device. Safe to copy between threads.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ashlar {

// A 64-bit identity that cannot be mixed up with another kind of identity or with a number.
// What the value means is the giver's business: a CUDA stream's id is its driver handle.
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

// The same where millions are kept: a position in a table.
template <typename Tag>
using SmallId = Id<Tag, uint32_t>;

using DeviceIndex = Id<struct DeviceTag>;  // position of a device within its back end
using StreamId = Id<struct StreamTag>;     // an ordered queue of device work
using EventId = Id<struct EventTag>;       // a marker that can be recorded in a stream
using ExtentId = Id<struct ExtentTag>;     // physical memory from one create call
using GraphId = Id<struct GraphTag>;       // work captured from streams, to be launched later
using NodeId = Id<struct NodeTag>;         // one piece of work in a graph
using CaptureId = Id<struct CaptureTag>;   // one capture, from its begin to its end

// Every device has this stream from the start; it is never created and never destroyed.
inline constexpr StreamId kDefaultStream{};

// Names a pool of an allocator. Pools made for a capture and pools made by a user count separately,
// as PyTorch's do; {0, 0} is the default pool.
struct PoolId {
  uint64_t capture = 0;
  uint64_t user = 0;

  constexpr bool is_default() const { return capture == 0 && user == 0; }
  friend constexpr auto operator<=>(const PoolId&, const PoolId&) = default;
};

// A position in device memory. Not a pointer: the host cannot dereference it by accident.
class DeviceAddress {
 public:
  constexpr DeviceAddress() = default;
  constexpr explicit DeviceAddress(uint64_t value) : value_(value) {}
  constexpr uint64_t value() const { return value_; }
  constexpr bool is_null() const { return value_ == 0; }
  friend constexpr auto operator<=>(DeviceAddress, DeviceAddress) = default;
  friend constexpr DeviceAddress operator+(DeviceAddress at, uint64_t bytes) {
    return DeviceAddress(at.value_ + bytes);
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
  constexpr bool contains(DeviceAddress at) const { return at >= begin && at - begin < bytes; }
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
