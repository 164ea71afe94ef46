// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and copies: calls the device and turns errors into exceptions.
#include "ashlar/stream.h"

#include <utility>

#include "api/unwrap.h"

namespace ashlar {

Stream::Stream(Device& device, const StreamOptions& options)
    : device_(&device), id_(unwrap(device.create_stream(options))) {}

Stream::Stream(Stream&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), id_(std::exchange(other.id_, {})) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(id_, other.id_);
  return *this;
}

// Ignores errors, which a destructor cannot report. If the device is lost, later calls on the
// device report the loss.
Stream::~Stream() {
  if (device_ != nullptr) (void)device_->destroy_stream(id_).ok();
}

void Stream::synchronize() { unwrap(device_->synchronize_stream(id_)); }
bool Stream::is_idle() const { return unwrap(device_->is_idle(id_)); }
void Stream::wait(const Event& event) { unwrap(device_->wait_event(id_, event.id())); }

Event::Event(Device& device, const EventOptions& options)
    : device_(&device), id_(unwrap(device.create_event(options))) {}

Event::Event(Event&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), id_(std::exchange(other.id_, {})) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(id_, other.id_);
  return *this;
}

Event::~Event() {
  if (device_ != nullptr) (void)device_->destroy_event(id_).ok();
}

void Event::record(StreamId stream) { unwrap(device_->record_event(id_, stream)); }
void Event::wait(StreamId stream) const { unwrap(device_->wait_event(stream, id_)); }
bool Event::is_done() const { return unwrap(device_->is_done(id_)); }
void Event::synchronize() const { unwrap(device_->synchronize_event(id_)); }

double Event::elapsed_ms_since(const Event& begin) const {
  return unwrap(device_->elapsed_ms(begin.id_, id_));
}

void copy_bytes_to_device(Device& device, DeviceAddress to, std::span<const std::byte> from,
                          StreamId stream) {
  if (from.empty()) return;
  unwrap(device.copy_to_device(to, from.data(), from.size(), stream));
}

void copy_bytes_to_host(Device& device, std::span<std::byte> to, DeviceAddress from,
                        StreamId stream) {
  if (to.empty()) return;
  unwrap(device.copy_to_host(to.data(), from, to.size(), stream));
}

void fill(Device& device, AddressRange range, uint8_t value, StreamId stream) {
  if (range.bytes == 0) return;
  unwrap(device.fill(range.begin, value, range.bytes, stream));
}

}  // namespace ashlar
