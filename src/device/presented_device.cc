// SPDX-License-Identifier: Apache-2.0
//
// Translates device indices, and records the errors of calls that PresentedDevice rejects itself.
#include "device/presented_device.h"

#include "base/text.h"

namespace ashlar {

const DeviceProperties& PresentedDevice::properties() const {
  std::call_once(properties_once_, [this] {
    properties_ = device().properties();
    properties_.backend = presentation_.backend;
    properties_.index = DeviceIndex(presentation_.first.value() + own_index_.value());
  });
  return properties_;
}

// When this class rejects a call, it clears the wrapped device's error (own_index_of). An error of
// that device is therefore newer than last_error_ and takes precedence. The error of a lost device,
// which take_last_error does not clear, also takes precedence.
Status PresentedDevice::last_error() {
  const Status failed = device().last_error();
  return failed.ok() ? last_error_.peek() : failed;
}

Status PresentedDevice::take_last_error() {
  const Status failed = device().take_last_error();
  const Status refused = last_error_.take();
  return failed.ok() ? refused : failed;
}

bool PresentedDevice::is_in_own_set(DeviceIndex peer) const {
  const uint64_t first = presentation_.first.value();
  return peer.value() >= first && peer.value() - first < presentation_.set_device_count;
}

Result<DeviceIndex> PresentedDevice::own_index_of(DeviceIndex peer) {
  if (is_in_own_set(peer)) return DeviceIndex(peer.value() - presentation_.first.value());
  const Status refused =
      peer.value() < presentation_.all_device_count
          ? Status::unsupported(text("device ", peer, " is another vendor's"))
          : Status::invalid_argument(text("there is no device ", peer, " (there are ",
                                          presentation_.all_device_count, ")"));
  (void)device().take_last_error();
  last_error_.record(refused);
  return refused;
}

Result<AddressDescription> PresentedDevice::describe(DeviceAddress address) {
  Result<AddressDescription> found = device().describe(address);
  if (found.ok() && found->kind != MemoryKind::kUnknown) {
    found->device = DeviceIndex(presentation_.first.value() + found->device.value());
  }
  return found;
}

Status PresentedDevice::set_access(AddressRange range, DeviceIndex accessor, Access access) {
  const Result<DeviceIndex> own_peer = own_index_of(accessor);
  return own_peer.ok() ? device().set_access(range, *own_peer, access) : own_peer.status();
}

// Devices of other vendors are valid arguments, but never accessible.
Result<bool> PresentedDevice::can_access_peer(DeviceIndex peer) {
  if (peer.value() < presentation_.all_device_count && !is_in_own_set(peer)) return false;
  const Result<DeviceIndex> own_peer = own_index_of(peer);
  if (!own_peer.ok()) return own_peer.status();
  return device().can_access_peer(*own_peer);
}

Status PresentedDevice::enable_peer_access(DeviceIndex peer) {
  const Result<DeviceIndex> own_peer = own_index_of(peer);
  return own_peer.ok() ? device().enable_peer_access(*own_peer) : own_peer.status();
}

Status PresentedDevice::disable_peer_access(DeviceIndex peer) {
  const Result<DeviceIndex> own_peer = own_index_of(peer);
  return own_peer.ok() ? device().disable_peer_access(*own_peer) : own_peer.status();
}

Status PresentedDevice::copy_to_peer(DeviceIndex peer, DeviceAddress to, DeviceAddress from,
                                     size_t bytes, StreamId stream) {
  const Result<DeviceIndex> own_peer = own_index_of(peer);
  return own_peer.ok() ? device().copy_to_peer(*own_peer, to, from, bytes, stream)
                       : own_peer.status();
}

}  // namespace ashlar
