// SPDX-License-Identifier: Apache-2.0
//
// Owning handles for the streams and events of a device, and typed copies. Programs use this header
// instead of calling `Device` directly.
//
//   Stream stream(device);
//   Buffer buffer = allocator.allocate(values.size() * sizeof(float), stream);
//   copy_to_device(device, buffer.address(), values, stream);     // any contiguous container
//   Event copied(device);
//   copied.record(stream);                                        // marks the copy
//   other_stream.wait(copied);                                    // does not block the host
//   stream.synchronize();                                         // blocks the host
//
// Errors: functions throw.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>

#include "ashlar/device.h"
#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

// A stream together with its device. Stream ids are unique per device only.
struct DeviceStream {
  Device* device = nullptr;
  StreamId stream{};
  friend bool operator==(const DeviceStream&, const DeviceStream&) = default;
};

class Event;

// Owns a stream and destroys it. Work that is queued at that time still runs. The device must
// outlive the stream. Not thread safe, except that its id may be used from any thread.
class ASHLAR_EXPORT Stream {
 public:
  explicit Stream(Device& device, const StreamOptions& options = {});
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  StreamId id() const { return id_; }
  operator StreamId() const { return id_; }
  Device& device() const { return *device_; }

  // Blocks the host until all work queued in the stream is done.
  void synchronize();
  // Returns whether all work queued in the stream is done.
  bool is_idle() const;
  // Makes later work of this stream start after the work that the event marks. Does not block the
  // host.
  void wait(const Event& event);

 private:
  Device* device_;  // null: moved from
  StreamId id_;
};

// Owns an event and destroys it. The device must outlive the event. Not thread safe.
class ASHLAR_EXPORT Event {
 public:
  explicit Event(Device& device, const EventOptions& options = {});
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  EventId id() const { return id_; }
  Device& device() const { return *device_; }

  // Marks all work queued in the stream so far. REQUIRES: the stream belongs to the event's device.
  void record(StreamId stream);
  // Makes later work of the stream start after the marked work. Does not block the host.
  void wait(StreamId stream) const;
  // Returns whether the marked work is done; true if the event was never recorded.
  bool is_done() const;
  // Blocks the host until the marked work is done.
  void synchronize() const;
  // Returns the milliseconds from `begin` to this event. REQUIRES: both events were created with
  // EventOptions::timing, were recorded, and are done.
  double elapsed_ms_since(const Event& begin) const;

 private:
  Device* device_;  // null: moved from
  EventId id_;
};

// These functions queue untyped copies. They throw DeviceError or InvalidArgument.
ASHLAR_EXPORT void copy_bytes_to_device(Device& device, DeviceAddress to,
                                        std::span<const std::byte> from, StreamId stream);
ASHLAR_EXPORT void copy_bytes_to_host(Device& device, std::span<std::byte> to, DeviceAddress from,
                                      StreamId stream);

// Queues a copy of a contiguous container or span of trivially copyable elements. The host memory
// must stay valid until the copy is done (Stream::synchronize). An empty range queues nothing.
template <typename Range>
void copy_to_device(Device& device, DeviceAddress to, const Range& from, StreamId stream) {
  const std::span elements(std::data(from), std::size(from));
  static_assert(std::is_trivially_copyable_v<typename decltype(elements)::value_type>,
                "devices copy bytes, not objects");
  copy_bytes_to_device(device, to, std::as_bytes(elements), stream);
}

// Like copy_to_device, but copies from the device to the container.
template <typename Range>
void copy_to_host(Device& device, Range&& to, DeviceAddress from, StreamId stream) {
  const std::span elements(std::data(to), std::size(to));
  static_assert(std::is_trivially_copyable_v<typename decltype(elements)::value_type>,
                "devices copy bytes, not objects");
  copy_bytes_to_host(device, std::as_writable_bytes(elements), from, stream);
}

// Queues a fill of the range with `value`; an empty range queues nothing. Throws DeviceError or
// InvalidArgument.
ASHLAR_EXPORT void fill(Device& device, AddressRange range, uint8_t value, StreamId stream);

}  // namespace ashlar
