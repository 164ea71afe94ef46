// SPDX-License-Identifier: Apache-2.0
//
// Imports granules into reserved addresses, and opens plain allocations. `close` undoes the steps
// in reverse order.
#include "share/imported_range.h"

#include <algorithm>

#include "base/check.h"
#include "base/host_memory.h"

namespace ashlar {

Result<std::unique_ptr<ImportedGranules>> ImportedGranules::reserve(Device& device,
                                                                    const Shape& shape) {
  const size_t bytes = shape.granule_bytes * shape.granule_count;
  const Result<DeviceAddress> base = device.reserve(bytes);
  if (!base.ok()) return base.status();
  ScopeGuard undo([&] {
    catch_bad_alloc([&] { return device.free_addresses({*base, bytes}).ok(); });
  });
  std::unique_ptr<ImportedGranules> reserved(
      new ImportedGranules(device, shape.granule_bytes, {*base, bytes}));
  undo.dismiss();
  return reserved;
}

// Imports and maps a granule. The mapping keeps the memory alive, so the extent is released
// immediately.
Status ImportedGranules::add(int fd) {
  const DeviceAddress at = range_.begin + mapped_count_ * granule_bytes_;
  ASHLAR_CHECK(at < range_.end());
  reserve_amortized(unreleased_extents_, unreleased_extents_.size() + 1);
  const Result<ExtentId> extent = device_.import_fd(fd, granule_bytes_);
  if (!extent.ok()) return extent.status();
  const Status mapped = without_bad_alloc([&] { return device_.map(at, *extent); });
  if (mapped.ok()) ++mapped_count_;
  const Status released = without_bad_alloc([&] { return device_.release(*extent); });
  if (!released.ok()) unreleased_extents_.push_back(*extent);
  return mapped.ok() ? released : mapped;
}

Status ImportedGranules::grant_access(DeviceIndex accessor) {
  MutexLock lock(mutex_);
  if (std::find(accessors_.begin(), accessors_.end(), accessor) != accessors_.end()) return {};
  reserve_amortized(accessors_, accessors_.size() + 1);
  Status opened = device_.set_access(range_, accessor, Access::kReadWrite);
  if (opened.ok()) accessors_.push_back(accessor);
  return opened;
}

Status ImportedGranules::close() {
  if (mapped_count_ > 0) {
    const AddressRange mapped{range_.begin, mapped_count_ * granule_bytes_};
    if (Status unmapped = device_.unmap(mapped); !unmapped.ok()) return unmapped;
    mapped_count_ = 0;
  }
  while (!unreleased_extents_.empty()) {
    if (Status released = device_.release(unreleased_extents_.back()); !released.ok())
      return released;
    unreleased_extents_.pop_back();
  }
  if (is_reserved_) {
    if (Status freed = device_.free_addresses(range_); !freed.ok()) return freed;
    is_reserved_ = false;
  }
  return {};
}

Result<std::unique_ptr<OpenedAllocation>> OpenedAllocation::open(Device& device,
                                                                 const AllocationHandle& handle) {
  const Result<DeviceAddress> address = device.open_allocation(handle);
  if (!address.ok()) return address.status();
  ScopeGuard undo([&] { catch_bad_alloc([&] { return device.close_allocation(*address).ok(); }); });
  std::unique_ptr<OpenedAllocation> opened(new OpenedAllocation(device, *address));
  undo.dismiss();
  return opened;
}

Status OpenedAllocation::query_size() {
  const Result<AddressDescription> described = device_.describe(range_.begin);
  if (!described.ok()) return described.status();
  range_.bytes = described->range.end() - range_.begin;
  return {};
}

Status OpenedAllocation::close() {
  if (!is_open_) return {};
  Status closed = device_.close_allocation(range_.begin);
  if (closed.ok()) is_open_ = false;
  return closed;
}

}  // namespace ashlar
