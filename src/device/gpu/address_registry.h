// SPDX-License-Identifier: Apache-2.0
//
// The device memory of all devices of one back end: allocations, reservations, mappings and access
// rights. Given an invalid address or range, a driver may succeed silently or crash. GpuDevice
// therefore checks addresses and ranges here before it calls the driver.
//
// Owns no memory and calls no driver: GpuDevice records here what the driver did. Thread safe; the
// caller must serialize a check and the change that depends on it.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::gpu {

// Tells how memory was obtained.
enum class RangeKind { kAllocated, kPooled, kOpened, kMapped };

class AddressRegistry {
 public:
  explicit AddressRegistry(size_t device_count);

  // --- allocations: all kinds except kMapped

  void add(RangeKind kind, AddressRange range, DeviceIndex owner);
  // Returns the range that starts at `at`. kInvalidArgument: no range of that kind and owner starts
  // at this address.
  Result<AddressRange> find(RangeKind kind, DeviceAddress at, DeviceIndex owner) const;
  // Removes and returns the range that starts at `at`. Fails like find.
  Result<AddressRange> remove(RangeKind kind, DeviceAddress at, DeviceIndex owner);

  // --- reservations

  // A reservation. `driver_range` is the range that the driver reserved; it is larger than `range`
  // if the driver could not align its reservation.
  struct Reservation {
    AddressRange range;
    AddressRange driver_range;
    DeviceIndex owner;
  };
  void add(const Reservation& reservation);
  // Returns the reservation of exactly `range`. kInvalidArgument: the owner has no such
  // reservation, or something is mapped in it.
  Result<Reservation> find_empty_reservation(AddressRange range, DeviceIndex owner) const;
  void remove_reservation(DeviceAddress begin);

  // --- mappings

  // Checks that a mapping can be added. kInvalidArgument: the range is not inside one reservation
  // of the owner, or part of the range is mapped.
  Status check_free(AddressRange range, DeviceIndex owner) const;
  void add_mapping(AddressRange range, ExtentId extent, DeviceIndex owner);
  bool is_mapped(ExtentId extent) const;
  // Checks that the range consists of whole mapped extents. kInvalidArgument: the range has gaps,
  // covers only part of an extent, or includes memory that is not a mapped extent of the owner.
  Status check_whole_extents(AddressRange range, DeviceIndex owner) const;
  // The next two functions require that check_whole_extents(range, owner) is ok.
  void set_access(AddressRange range, DeviceIndex accessor, Access access);
  void remove_mappings(AddressRange range);

  void set_peer_access(DeviceIndex accessor, DeviceIndex owner, bool enabled);

  // --- queries

  // Describes the memory at an address. The result's kind is kUnknown if the address is reserved
  // but not mapped. Returns nullopt if the address is not in the registry.
  std::optional<AddressDescription> describe(DeviceAddress at) const;
  // Checks that `accessor` has `wanted` access to the range. kInvalidArgument: the range is empty
  // or overflows, or `accessor` lacks this access to part of the range. Returns nullopt if the
  // start of the range is not in the registry, so that other code in the process may have allocated
  // it.
  std::optional<Status> check(DeviceIndex accessor, AddressRange range, Access wanted) const;

 private:
  struct Range {
    size_t bytes = 0;
    DeviceIndex owner;
    RangeKind kind = RangeKind::kAllocated;
    ExtentId extent;             // set only for kMapped
    std::vector<Access> grants;  // indexed by device; set only for kMapped
  };
  using ByAddress = std::map<DeviceAddress, Range>;

  ByAddress::const_iterator range_at(DeviceAddress at) const ASHLAR_REQUIRES_SHARED(mutex_);
  const Reservation* reservation_at(DeviceAddress at) const ASHLAR_REQUIRES_SHARED(mutex_);
  Status check_start(RangeKind kind, DeviceAddress at, DeviceIndex owner) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  bool may_access(const Range& range, DeviceIndex accessor, Access wanted) const
      ASHLAR_REQUIRES_SHARED(mutex_);

  const size_t device_count_;

  mutable SharedMutex mutex_;
  ByAddress ranges_ ASHLAR_GUARDED_BY(mutex_);
  std::map<DeviceAddress, Reservation> reservations_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<ExtentId, size_t> mapping_counts_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<bool> peer_access_ ASHLAR_GUARDED_BY(mutex_);  // [accessor * device_count_ + owner]
};

}  // namespace ashlar::gpu
