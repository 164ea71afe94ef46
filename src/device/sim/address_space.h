// SPDX-License-Identifier: Apache-2.0
//
// The addresses of the simulated machine: which are reserved, what is mapped where, and who may
// touch it. One per machine, as addresses are unique across devices.
//
// Every reservation is two equal halves of host addresses. The first half is what users see as
// device addresses: it stays inaccessible for ever, so a host dereference faults whatever the
// devices are doing meanwhile. The second half, its shadow, is where extents are really mapped
// and where device work reads and writes:   shadow address == device address + shadow_distance.
// A granule that is never accessible follows each half, so that running past either end faults.
//
// Invariants:  mappings do not overlap and lie inside one reservation each;
//              a plain mapping fills its reservation;
//              run_count == number of mappings that do not continue the file range of the one
//              before them under the same protection (what the kernel needs one entry for).
//
// Thread safe: readers (device work, checks) share, changes exclude. In bookkeeping, addresses are
// invented, the shadow does not exist, and transfers move nothing.
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

// Who put a mapping there, and so who may take it away.
enum class MappingKind { kMapped, kAllocation, kOpened, kPool };

class AddressSpace {
 public:
  AddressSpace(const Options& options, size_t max_mappings);
  ~AddressSpace();

  // --- reserved addresses and mapped extents (the contract's virtual memory) ------------------

  // `owner` reserved the addresses; they are nobody else's to change.
  Result<DeviceAddress> reserve(size_t bytes, const ReserveOptions& options, DeviceIndex owner);
  Status free_addresses(AddressRange range, DeviceIndex owner);
  Status map(DeviceAddress at, std::shared_ptr<Extent> extent, DeviceIndex owner);
  // Both say how many extents the range covers.
  struct Grant {
    DeviceIndex accessor;
    Access access = Access::kNone;
  };
  Result<size_t> set_access(AddressRange range, const Grant& grant, DeviceIndex owner);
  Result<size_t> unmap(AddressRange range, DeviceIndex owner);

  // --- extents with an address of their own ---------------------------------------------------

  // Reserves, maps and opens `extent` to its owner and the owner's enabled peers.
  Result<DeviceAddress> place(std::shared_ptr<Extent> extent, DeviceIndex owner, MappingKind kind);
  // Undoes place, and says how large it was. kInvalidArgument: no mapping of that kind and owner
  // starts there.
  Result<size_t> remove(DeviceAddress at, DeviceIndex owner, MappingKind kind);
  // The extent placed at `at`. kInvalidArgument as for remove.
  Result<std::shared_ptr<Extent>> placed(DeviceAddress at, DeviceIndex owner,
                                         MappingKind kind) const;

  void set_peer_access(DeviceIndex accessor, DeviceIndex owner, bool enabled);

  // In bookkeeping: where the owner's next reservation goes, if it can.
  void place_next(DeviceIndex owner, DeviceAddress at);
  // In bookkeeping: where the owner's other plain allocations go, if they can.
  using Choose = std::function<DeviceAddress(size_t bytes)>;
  void place_by(DeviceIndex owner, Choose choose);

  // --- questions and transfers, as `accessor` sees memory
  // -----------------------------------------

  AddressDescription describe(DeviceAddress at) const;
  bool is_reserved(DeviceAddress at) const;
  // kInvalidArgument: some byte of the range is not mapped, or not accessible in the wanted way.
  Status check(DeviceIndex accessor, AddressRange range, Access wanted) const;
  // Where the host finds the range. Null in bookkeeping.
  Result<void*> shadow(DeviceIndex accessor, AddressRange range, Access wanted) const;

  // Each moves `bytes` in steps, checking anew before each: memory unmapped meanwhile is a failure,
  // not a crash.
  struct Side {
    DeviceIndex accessor;
    DeviceAddress at;
  };
  Status write(Side to, const void* from, size_t bytes) const;
  Status read(void* to, Side from, size_t bytes) const;
  Status transfer(Side to, Side from, size_t bytes) const;
  Status fill(Side at, uint8_t value, size_t bytes) const;

  size_t mapping_count() const;

 private:
  struct Reservation {
    size_t bytes = 0;
    DeviceIndex owner;
    uint64_t shadow_distance = 0;  // 0 in bookkeeping
    bool plain = false;            // belongs to a placed extent; not the user's to free or map into
    size_t watch = kNoWatch;       // see host_access.h
  };
  struct Mapping {
    std::shared_ptr<Extent> extent;
    DeviceIndex owner;
    MappingKind kind = MappingKind::kMapped;
    std::vector<Access> grants;  // by device index; unused by placed extents
    int protection = 0;          // what the shadow has now
    bool in_shadow = false;      // it was opened once, and the kernel has it mapped
  };
  using Reservations = std::map<DeviceAddress, Reservation>;
  using Mappings = std::map<DeviceAddress, Mapping>;

  Result<DeviceAddress> reserve_locked(size_t bytes, const ReserveOptions& options,
                                       DeviceIndex owner) ASHLAR_REQUIRES(mutex_);
  bool is_free_locked(AddressRange range) const ASHLAR_REQUIRES_SHARED(mutex_);
  DeviceAddress invent_locked(size_t bytes, size_t alignment_bytes, DeviceAddress hint)
      ASHLAR_REQUIRES(mutex_);
  void drop_reservation_locked(Reservations::iterator reservation) ASHLAR_REQUIRES(mutex_);

  Reservations::const_iterator reservation_of(DeviceAddress at) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  Mappings::const_iterator mapping_of(DeviceAddress at) const ASHLAR_REQUIRES_SHARED(mutex_);
  Result<size_t> count_tiles_locked(AddressRange range, DeviceIndex owner) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  Status check_locked(DeviceIndex accessor, AddressRange range, Access wanted) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  bool may_access_locked(const Mapping& mapping, DeviceIndex accessor, Access wanted) const
      ASHLAR_REQUIRES_SHARED(mutex_);
  char* shadow_of(DeviceAddress at) const ASHLAR_REQUIRES_SHARED(mutex_);

  // Whether the mapping at `right` continues, in address and file, the one before it.
  bool continues_locked(Mappings::const_iterator right) const ASHLAR_REQUIRES_SHARED(mutex_);
  Mappings::iterator insert_locked(DeviceAddress at, Mapping mapping) ASHLAR_REQUIRES(mutex_);
  // Returns the extent, so that the last reference can be let go after unlocking: that punches a
  // hole, which takes a while.
  std::shared_ptr<Extent> erase_locked(Mappings::iterator mapping) ASHLAR_REQUIRES(mutex_);
  // Gives every mapping of the range its new protection, in their order. All or nothing.
  Status protect_locked(AddressRange range, const std::vector<int>& protections)
      ASHLAR_REQUIRES(mutex_);
  void set_protections_locked(AddressRange range, const std::vector<int>& protections)
      ASHLAR_REQUIRES(mutex_);
  Status show_locked(AddressRange range) ASHLAR_REQUIRES(mutex_);
  Status show_run_locked(DeviceAddress at, size_t bytes, const Mapping& first)
      ASHLAR_REQUIRES(mutex_);
  Status too_many_mappings() const;
  // How many of the mappings from `range.begin` up to and including the one behind it start a run.
  size_t runs_in_locked(AddressRange range) const ASHLAR_REQUIRES_SHARED(mutex_);
  void hide_locked(AddressRange range) ASHLAR_REQUIRES(mutex_);

  const bool backed_;
  const size_t granularity_bytes_;
  const size_t device_count_;
  const size_t max_mappings_;

  mutable SharedMutex mutex_;
  Reservations reservations_ ASHLAR_GUARDED_BY(mutex_);
  Mappings mappings_ ASHLAR_GUARDED_BY(mutex_);
  size_t run_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::vector<bool> peer_access_ ASHLAR_GUARDED_BY(mutex_);  // [accessor * device_count_ + owner]
  uint64_t next_invented_ ASHLAR_GUARDED_BY(mutex_);
  DriverAddresses plain_addresses_ ASHLAR_GUARDED_BY(mutex_);
  std::map<DeviceIndex, std::deque<DeviceAddress>> wishes_ ASHLAR_GUARDED_BY(mutex_);
  std::map<DeviceIndex, Choose> choosers_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::sim
