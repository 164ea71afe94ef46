// SPDX-License-Identifier: Apache-2.0
//
// Presents a device under another back end name and index, for sets that combine several vendors
// (accelerators.cc). Translates the properties and all device indices; forwards everything else.
// Thread safe.
#pragma once

#include <mutex>
#include <string_view>

#include "ashlar/device.h"
#include "device/forwarding_device.h"
#include "device/last_error.h"

namespace ashlar {

// How the devices of one vendor's set are presented: with consecutive indices from `first`.
struct Presentation {
  std::string_view backend;     // refers to a string literal
  DeviceIndex first;            // the presented index of the set's first device
  size_t set_device_count = 0;  // number of devices in that set
  size_t all_device_count = 0;  // number of devices in all sets
};

class PresentedDevice final : public ForwardingDevice {
 public:
  // REQUIRES: `device` outlives this object. The constructor does not call the device, because the
  // first call may initialize it.
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
  bool is_in_own_set(DeviceIndex peer) const;
  // Returns the index of the peer in this vendor's set. kUnsupported: the peer is another vendor's
  // device. kInvalidArgument: there is no such device. On failure, records the error in last_error_
  // and clears the last error of the wrapped device.
  Result<DeviceIndex> own_index_of(DeviceIndex peer);

  const DeviceIndex own_index_;
  const Presentation presentation_;
  LastError last_error_;  // errors of calls that this class rejects
  mutable std::once_flag properties_once_;
  mutable DeviceProperties properties_;  // set on first use
};

}  // namespace ashlar
