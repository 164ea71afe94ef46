// SPDX-License-Identifier: Apache-2.0
//
// A device under another name and number: what a program sees when devices of several vendors stand
// in one row (accelerators.cc). Everything is the device's own but its identity, and the numbers of
// devices that go in and come out: functions that have none are handed on. Thread safe, as the
// device is.
#pragma once

#include <mutex>
#include <string_view>

#include "ashlar/device.h"
#include "device/forwarding_device.h"
#include "device/last_error.h"

namespace ashlar {

// How a device is presented. Its set's devices have consecutive numbers from `first` on.
struct Presentation {
  std::string_view backend;  // a literal
  DeviceIndex first;         // of the device's own set
  size_t set_count = 0;      // devices in that set
  size_t all_count = 0;      // devices in all sets
};

class PresentedDevice final : public ForwardingDevice {
 public:
  // `device` outlives this one. Does not call it: a device is taken into use by its first call.
  PresentedDevice(Device& device, DeviceIndex own_index, const Presentation& presentation)
      : ForwardingDevice(device), own_index_(own_index), presentation_(presentation) {}

  const DeviceProperties& properties() const override;
  Status last_error() override;
  Status take_last_error() override;
  Result<AddressDescription> describe(DeviceAddress address) override;
  Status set_access(AddressRange range, DeviceIndex accessor, Access access) override;
  Result<bool> can_access_peer(DeviceIndex peer) override;
  Status enable_peer_access(DeviceIndex peer) override;
  Status disable_peer_access(DeviceIndex peer) override;
  Status copy_to_peer(DeviceIndex peer, DeviceAddress to, DeviceAddress from, size_t bytes,
                      StreamId stream) override;

 private:
  bool is_of_own_set(DeviceIndex peer) const;
  // The peer as the device's own set numbers it. kUnsupported: it is another vendor's.
  // kInvalidArgument: there is no such device.
  Result<DeviceIndex> own_number(DeviceIndex peer);

  const DeviceIndex own_index_;
  const Presentation presentation_;
  LastError last_error_;  // of what is refused here
  mutable std::once_flag described_;
  mutable DeviceProperties properties_;  // set once, at the first question
};

}  // namespace ashlar
