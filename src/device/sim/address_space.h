// SPDX-License-Identifier: Apache-2.0
//
// The address space of a simulated machine: reservations, mappings and access rights. There is one
// address space per machine, because addresses are unique across devices.
//
// Every reservation consists of two equal halves of host addresses. Users see the first half as
// device addresses; it is never accessible, so that a host dereference always faults. Extents are
// mapped in the second half, the shadow, through which device work reads and writes:
//   shadow address == device address + shadow_distance.
// Each half ends with an inaccessible granule, so that an access beyond the reserved bytes faults.
//
// Invariants:  mappings do not overlap, and each lies inside one reservation;
//              the mapping of an allocation fills its reservation;
//              run_count == number of runs. A run is a maximal sequence of adjacent mappings in one
//              reservation that have adjacent file ranges and the same protection; it needs one
//              kernel entry.
//
// Thread safe: queries and transfers hold the lock shared, changes hold it exclusively. With
// Backing::kBookkeeping, addresses are synthetic, there is no shadow, and transfers do nothing.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ashlar/device.h"
#include "ashlar/sim.h"
#include "base/mutex.h"
#include "device/sim/driver_addresses.h"
#include "device/sim/host_access.h"
#include "device/sim/physical_memory.h"

namespace ashlar::sim {

// The function that created a mapping: Device::map, allocate, open_allocation or allocate_async.
// `unmap` removes only mappings of kind kMapped, and `free` only those of the given kind.
enum class MappingKind { kMapped, kAllocation, kOpened, kPool };

class AddressSpace {
 public:
  AddressSpace(const Options& options, size_t max_mappings);
  ~AddressSpace();

  // --- virtual memory: see the functions of these names in `Device`

  // Only `owner` may change the reservation and the mappings in it.
  Result<DeviceAddress> reserve(size_t bytes, const ReserveOptions& options, DeviceIndex owner);
  Status free_addresses(AddressRange range, DeviceIndex owner);
  Status map(DeviceAddress at, std::shared_ptr<Extent> extent, DeviceIndex owner);
  struct AccessGrant {
    DeviceIndex accessor;
    Access access = Access::kNone;
  };
  // Returns the number of extents in the range.
  Result<size_t> set_access(AddressRange range, const AccessGrant& grant, DeviceIndex owner);
  // Returns the number of extents in the range.
  Result<size_t> unmap(AddressRange range, DeviceIndex owner);

  // --- allocations: extents with a reservation of their own

  // Reserves addresses, maps `extent` and makes it accessible to its owner and enabled peers.
  Result<DeviceAddress> allocate(std::shared_ptr<Extent> extent, DeviceIndex owner,
                                 MappingKind kind);
  // Undoes allocate and returns the size in bytes. kInvalidArgument: no mapping of that kind and
  // owner starts at `at`.
  Result<size_t> free(DeviceAddress at, DeviceIndex owner, MappingKind kind);
  // Returns the extent allocated at `at`. kInvalidArgument: no mapping of that kind and owner
  // starts at `at`.
  Result<std::shared_ptr<Extent>> find_allocation(DeviceAddress at, DeviceIndex owner,
                                                  MappingKind kind) const;

  void set_peer_access(DeviceIndex accessor, DeviceIndex owner, bool enabled);

  // The functions below implement the functions of the same names in sim::Machine.
  void set_next_address(DeviceIndex owner, DeviceAddress at);
  using AddressPolicy = std::function<DeviceAddress(size_t bytes)>;
  void set_address_policy(DeviceIndex owner, AddressPolicy choose);

  // --- queries and transfers; a function with an accessor checks the accessor's access rights

  AddressDescription describe(DeviceAddress at) const;
  bool is_reserved(DeviceAddress at) const;
  // Checks access to a range. kInvalidArgument: the range is empty or not inside one reservation,
  // or part of the range is not mapped or not accessible with `wanted` access.
  Status check(DeviceIndex accessor, AddressRange range, Access wanted) const;
  // Returns a host pointer to the range in the shadow; null with Backing::kBookkeeping.
  Result<void*> shadow(DeviceIndex accessor, AddressRange range, Access wanted) const;

  // One end of a transfer.
  struct Endpoint {
    DeviceIndex accessor;
    DeviceAddress at;
  };
  // These functions transfer `bytes` in steps and check access before each step, so that memory
  // that is unmapped during the transfer causes a failure instead of a crash.
  Status write(Endpoint to, const void* from, size_t bytes) const;
  Status read(void* to, Endpoint from, size_t bytes) const;
  Status transfer(Endpoint to, Endpoint from, size_t bytes) const;
  Status fill(Endpoint at, uint8_t value, size_t bytes) const;

  size_t mapping_count() const;

 private:
  struct Reservation {
    size_t bytes = 0;
    DeviceIndex owner;
    uint64_t shadow_distance = 0;  // 0 if the backing is Backing::kBookkeeping
    bool is_allocation = false;  // created by allocate(); the user must not free it or map into it
    size_t watch = kNoWatch;     // see host_access.h
  };
  struct Mapping {
    std::shared_ptr<Extent> extent;
    DeviceIndex owner;
    MappingKind kind = MappingKind::kMapped;
    std::vector<Access> grants;  // indexed by device; unused by allocations
    int protection = 0;          // current protection of the shadow
    bool in_shadow = false;      // whether the shadow maps the extent; the first set_access maps it
  };
  using Reservations = std::map<DeviceAddress, Reservation>;
  using Mappings = std::map<DeviceAddress, Mapping>;

  Result<DeviceAddress> reserve_locked(size_t bytes, const ReserveOptions& options,
                                       DeviceIndex owner) ASHLAR_REQUIRES(mutex_);
  bool is_free_locked(AddressRange range) const ASHLAR_REQUIRES_SHARED(mutex_);
  DeviceAddress pick_address_locked(size_t bytes, size_t alignment_bytes, DeviceAddress hint)
      ASHLAR_REQUIRES(mutex_);
  void erase_reservation_locked(Reservations::iterator reservation) ASHLAR_REQUIRES(mutex_);

  Reservations::const_iterator reservation_of(DeviceAddress at) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  Mappings::const_iterator mapping_of(DeviceAddress at) const ASHLAR_REQUIRES_SHARED(mutex_);
  Result<size_t> count_extents_locked(AddressRange range, DeviceIndex owner) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  Status check_locked(DeviceIndex accessor, AddressRange range, Access wanted) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  bool may_access_locked(const Mapping& mapping, DeviceIndex accessor, Access wanted) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  char* shadow_of(DeviceAddress at) const ASHLAR_REQUIRES_SHARED(mutex_);

  // Returns whether the mapping `right` continues the previous mapping: whether the two are
  // adjacent in the reservation and in the file, and have the same protection.
  bool continues_previous_locked(Mappings::const_iterator right) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  Mappings::iterator insert_locked(DeviceAddress at, Mappings::node_type mapping)
      ASHLAR_REQUIRES(mutex_);
  void add_to_run_count_locked(Mappings::const_iterator inserted) ASHLAR_REQUIRES(mutex_);
  // Removes the mapping and returns it, so that the caller can drop what may be the last reference
  // to its extent after unlocking: releasing an extent punches a hole in its file, which is slow.
  Mappings::node_type extract_locked(Mappings::iterator mapping) ASHLAR_REQUIRES(mutex_);
  // Sets the protection of each mapping in the range, in address order, and updates the shadow. On
  // failure, restores the previous protections.
  Status protect_locked(AddressRange range, const std::vector<int>& protections)
      ASHLAR_REQUIRES(mutex_);
  // Sets the protections of the mappings from `first` up to `end`, in address order.
  void set_protections_locked(Mappings::iterator first, DeviceAddress end,
                              const std::vector<int>& protections) ASHLAR_REQUIRES(mutex_);
  Status sync_shadow_locked(AddressRange range) ASHLAR_REQUIRES(mutex_);
  Status sync_shadow_run_locked(DeviceAddress at, size_t bytes, const Mapping& first)
      ASHLAR_REQUIRES(mutex_);
  Status too_many_mappings_error() const;
  // Counts the mappings from `first` up to `end` that start a run, and the first mapping after them
  // if it starts a run: a change of these mappings may join that mapping to a run or split it off.
  size_t count_runs_locked(Mappings::const_iterator first, DeviceAddress end) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  void unmap_shadow_locked(AddressRange range) ASHLAR_REQUIRES(mutex_);

  const bool has_memory_;
  const size_t granularity_bytes_;
  const size_t device_count_;
  const size_t max_mappings_;

  mutable SharedMutex mutex_;
  Reservations reservations_ ASHLAR_GUARDED_BY(mutex_);
  Mappings mappings_ ASHLAR_GUARDED_BY(mutex_);
  size_t run_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::vector<bool> peer_access_ ASHLAR_GUARDED_BY(mutex_);  // [accessor * device_count_ + owner]
  uint64_t next_synthetic_ ASHLAR_GUARDED_BY(mutex_);
  DriverAddresses driver_addresses_ ASHLAR_GUARDED_BY(mutex_);
  std::map<DeviceIndex, std::deque<DeviceAddress>> next_addresses_ ASHLAR_GUARDED_BY(mutex_);
  std::map<DeviceIndex, AddressPolicy> address_policies_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::sim
