// SPDX-License-Identifier: Apache-2.0
//
// What lies where in device memory, of all devices of one back end: allocations, reservations, what
// is mapped in them and who may touch it. A driver handed an address or a range that it did not
// expect says nothing, or ends the process; so they are looked up here before it is asked.
//
// Holds no memory and calls no driver: the devices (gpu_device.h) do, and note here what came of
// it. Thread safe; a check and the act that relies on it are one only if the caller sees to it.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::gpu {

// How a piece of memory came to its addresses.
enum class PlaceKind { kAllocated, kPooled, kOpened, kMapped };

class Places {
 public:
  explicit Places(size_t device_count);

  // --- memory with an address of its own: all kinds but kMapped ---------------------------------

  void add(PlaceKind kind, AddressRange range, DeviceIndex owner);
  // The range that was added. kInvalidArgument: none of that kind and owner starts there.
  Result<AddressRange> find(PlaceKind kind, DeviceAddress at, DeviceIndex owner) const;
  // The same, and it is gone.
  Result<AddressRange> remove(PlaceKind kind, DeviceAddress at, DeviceIndex owner);

  // --- reserved addresses -----------------------------------------------------------------------

  // `whole` is what the driver reserved: larger than `range` where the driver could not align it.
  struct Reservation {
    AddressRange range;
    AddressRange whole;
    DeviceIndex owner;
  };
  void add(const Reservation& reservation);
  // kInvalidArgument: not exactly one reservation of the owner, or something is mapped in it.
  Result<Reservation> find_empty_reservation(AddressRange range, DeviceIndex owner) const;
  void remove_reservation(DeviceAddress begin);

  // --- mapped extents ---------------------------------------------------------------------------

  // kInvalidArgument: not free addresses inside one reservation of the owner.
  Status check_free(AddressRange range, DeviceIndex owner) const;
  void add_mapping(AddressRange range, ExtentId extent, DeviceIndex owner);
  bool is_mapped(ExtentId extent) const;
  // kInvalidArgument: not whole mapped extents of the owner without a hole, or no such accessor.
  Status check_whole_extents(AddressRange range, DeviceIndex owner) const;
  // REQUIRES: check_whole_extents.
  void set_access(AddressRange range, DeviceIndex accessor, Access access);
  void remove_mappings(AddressRange range);

  // --- questions --------------------------------------------------------------------------------

  void set_peer_access(DeviceIndex accessor, DeviceIndex owner, bool enabled);
  // Empty: nothing of ours is there. A bare reservation is ours, and kUnknown.
  std::optional<AddressDescription> describe(DeviceAddress at) const;
  // kInvalidArgument: some byte of it is not memory that the accessor may touch so. Empty: nothing
  // of ours is at its beginning, so somebody else must know.
  std::optional<Status> check(DeviceIndex accessor, AddressRange range, Access wanted) const;

 private:
  struct Place {
    size_t bytes = 0;
    DeviceIndex owner;
    PlaceKind kind = PlaceKind::kAllocated;
    ExtentId extent;             // of kMapped
    std::vector<Access> grants;  // of kMapped, by device
  };
  using ByAddress = std::map<DeviceAddress, Place>;

  ByAddress::const_iterator place_at(DeviceAddress at) const ASHLAR_REQUIRES_SHARED(mutex_);
  const Reservation* reservation_at(DeviceAddress at) const ASHLAR_REQUIRES_SHARED(mutex_);
  Status check_start(PlaceKind kind, DeviceAddress at, DeviceIndex owner) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  bool may_access(const Place& place, DeviceIndex accessor, Access wanted) const
      ASHLAR_REQUIRES_SHARED(mutex_);

  const size_t device_count_;

  mutable SharedMutex mutex_;
  ByAddress places_ ASHLAR_GUARDED_BY(mutex_);
  std::map<DeviceAddress, Reservation> reservations_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<ExtentId, size_t> mapping_counts_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<bool> peer_access_ ASHLAR_GUARDED_BY(mutex_);  // [accessor * device_count_ + owner]
};

}  // namespace ashlar::gpu
