// SPDX-License-Identifier: Apache-2.0
//
// Each trial undoes what it did, whatever came of it.
#include "device/gpu/trials.h"

#include "ashlar/unique_fd.h"
#include "device/gpu/driver_errors.h"

namespace ashlar::gpu {
namespace {

constexpr size_t kLittle = 4096;

// An extent for the time of a trial; there is none where creating it failed.
class TrialExtent {
 public:
  TrialExtent(Driver& driver, const Driver::Create& wanted)
      : driver_(driver), created_(driver.create(wanted, handle_)) {}
  ~TrialExtent() {
    if (created_.ok()) (void)driver_.release(handle_);
  }
  TrialExtent(const TrialExtent&) = delete;
  TrialExtent& operator=(const TrialExtent&) = delete;

  const Outcome& created() const { return created_; }
  Handle handle() const { return handle_; }

 private:
  Driver& driver_;
  Handle handle_ = 0;
  Outcome created_;
};

bool exports_fd(Driver& driver, const Driver::Create& wanted) {
  const TrialExtent extent(driver, wanted);
  if (!extent.created().ok()) return false;
  int fd = -1;
  if (!driver.export_fd(extent.handle(), fd).ok()) return false;
  return UniqueFd(fd).valid();
}

bool exports_fabric(Driver& driver, const Driver::Create& wanted) {
  const TrialExtent extent(driver, wanted);
  FabricHandle handle{};
  if (!extent.created().ok() || !driver.export_fabric(extent.handle(), handle).ok()) return false;
  Handle imported = 0;
  if (!driver.import_fabric(handle, imported).ok()) return false;
  (void)driver.release(imported);
  return true;
}

bool maps_twice(Driver& driver, const Driver::Create& wanted) {
  const TrialExtent extent(driver, wanted);
  if (!extent.created().ok()) return false;
  const size_t granule = wanted.bytes;
  DeviceAddress begin;
  if (!driver.reserve({2 * granule, 0, {}}, begin).ok()) return false;
  const AddressRange first{begin, granule};
  const AddressRange second{begin + granule, granule};
  bool works = false;
  if (driver.map(first, extent.handle()).ok()) {
    works = driver.map(second, extent.handle()).ok();
    if (works) (void)driver.unmap(second);
    (void)driver.unmap(first);
  }
  (void)driver.free_addresses({begin, 2 * granule});
  return works;
}

bool shares_allocations(Driver& driver) {
  DeviceAddress at;
  if (!driver.allocate(kLittle, at).ok()) return false;
  AllocationHandle handle{};
  const bool works = driver.share(at, handle).ok();
  (void)driver.free(at);
  return works;
}

// A device that is merely full has virtual memory all the same.
bool creates(Driver& driver, const Driver::Create& wanted) {
  const TrialExtent extent(driver, wanted);
  return extent.created().ok() || extent.created().code == kOutOfMemory;
}

}  // namespace

Abilities try_out(Driver& driver, int device, const DeviceFacts& facts) {
  Abilities found;
  found.can_share_allocations = shares_allocations(driver);
  Driver::Create wanted;
  wanted.device = device;
  wanted.bytes = facts.granularity_bytes;
  wanted.rdma = facts.has_rdma;
  found.has_virtual_memory = wanted.bytes != 0 && creates(driver, wanted);
  if (!found.has_virtual_memory) return found;
  found.can_alias = maps_twice(driver, wanted);
  wanted.export_fd = true;
  found.can_export_fd = exports_fd(driver, wanted);
  wanted.export_fd = false;
  wanted.export_fabric = true;
  found.can_export_fabric = exports_fabric(driver, wanted);
  return found;
}

}  // namespace ashlar::gpu
