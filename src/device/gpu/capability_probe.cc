// SPDX-License-Identifier: Apache-2.0
//
// Implements the probes. Each probe releases the memory that it allocated, whether it succeeded or
// not.
#include "device/gpu/capability_probe.h"

#include "ashlar/unique_fd.h"
#include "device/gpu/alias_probe.h"
#include "device/gpu/driver_errors.h"

namespace ashlar::gpu {
namespace {

constexpr size_t kProbeAllocationBytes = 4096;

// An extent for one probe. `created` tells whether it could be created; the destructor releases it.
class ProbeExtent {
 public:
  ProbeExtent(Driver& driver, const Driver::CreateRequest& request)
      : driver_(driver), created_(driver.create(request, handle_)) {}
  ~ProbeExtent() {
    if (created_.ok()) (void)driver_.release(handle_);
  }
  ProbeExtent(const ProbeExtent&) = delete;
  ProbeExtent& operator=(const ProbeExtent&) = delete;

  const DriverResult& created() const { return created_; }
  Handle handle() const { return handle_; }

 private:
  Driver& driver_;
  Handle handle_ = 0;
  DriverResult created_;
};

bool can_export_fd(Driver& driver, const Driver::CreateRequest& request) {
  const ProbeExtent extent(driver, request);
  if (!extent.created().ok()) return false;
  int fd = -1;
  if (!driver.export_fd(extent.handle(), fd).ok()) return false;
  return UniqueFd(fd).valid();
}

bool can_export_fabric(Driver& driver, const Driver::CreateRequest& request) {
  const ProbeExtent extent(driver, request);
  FabricHandle handle{};
  if (!extent.created().ok() || !driver.export_fabric(extent.handle(), handle).ok()) return false;
  Handle imported = 0;
  if (!driver.import_fabric(handle, imported).ok()) return false;
  (void)driver.release(imported);
  return true;
}

bool can_share_allocations(Driver& driver) {
  DeviceAddress at;
  if (!driver.allocate(kProbeAllocationBytes, at).ok()) return false;
  AllocationHandle handle{};
  const bool is_shared = driver.get_ipc_handle(at, handle).ok();
  (void)driver.free(at);
  return is_shared;
}

// Returns whether the driver can create extents as requested. The result is also true if device
// memory ran out: a driver that reports kOutOfMemory supports the call.
bool can_create_extents(Driver& driver, const Driver::CreateRequest& request) {
  const ProbeExtent extent(driver, request);
  return extent.created().ok() || extent.created().code == kOutOfMemory;
}

}  // namespace

Capabilities probe_capabilities(Driver& driver, int device, const DeviceInfo& info) {
  Capabilities found;
  found.can_share_allocations = can_share_allocations(driver);
  Driver::CreateRequest request;
  request.device = device;
  request.bytes = info.granularity_bytes;
  request.rdma = info.has_rdma;
  found.has_virtual_memory = request.bytes != 0 && can_create_extents(driver, request);
  if (!found.has_virtual_memory) {
    found.alias_probe = "not probed: the device has no virtual memory";
    return found;
  }
  AliasProbeResult aliases = probe_aliases(driver, request);
  found.can_alias = aliases.can_alias;
  found.alias_probe = std::move(aliases.report);
  request.can_export_fd = true;
  found.can_export_fd = can_export_fd(driver, request);
  request.can_export_fd = false;
  request.can_export_fabric = true;
  found.can_export_fabric = can_export_fabric(driver, request);
  return found;
}

}  // namespace ashlar::gpu
