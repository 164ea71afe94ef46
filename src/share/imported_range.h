// SPDX-License-Identifier: Apache-2.0
//
// Another process's memory in this process's address space: granules that are imported one by one,
// or an opened plain allocation. This code uses neither sockets nor leases. Thread safe only where
// stated.
#pragma once

#include <memory>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar {

class ImportedRange {
 public:
  virtual ~ImportedRange() = default;

  virtual AddressRange range() const = 0;
  // Grants another device of this process access to the range. Idempotent. Thread safe.
  virtual Status grant_access(DeviceIndex accessor) = 0;
  // Undoes the import. After a failure, another call continues with the step that failed. The
  // destructor does not close the range: without `close`, the memory leaks. REQUIRES: no work uses
  // the range.
  virtual Status close() = 0;
};

// A reserved address range for granule_count granules, which are added from first to last.
class ImportedGranules final : public ImportedRange {
 public:
  struct Shape {
    size_t granule_bytes = 0;
    size_t granule_count = 0;
  };
  static Result<std::unique_ptr<ImportedGranules>> reserve(Device& device, const Shape& shape);

  // Imports and maps the next granule. Does not take ownership of `fd`. After a failure, only
  // `close` may be called. REQUIRES: fewer than Shape::granule_count granules have been added.
  Status add(int fd);
  size_t granule_count() const { return mapped_count_; }  // number of granules added so far

  AddressRange range() const override { return range_; }
  Status grant_access(DeviceIndex accessor) override;
  Status close() override;

 private:
  ImportedGranules(Device& device, size_t granule_bytes, AddressRange range)
      : device_(device), granule_bytes_(granule_bytes), range_(range) {}

  Device& device_;
  const size_t granule_bytes_;
  const AddressRange range_;
  size_t mapped_count_ = 0;                   // changed by add and close only
  std::vector<ExtentId> unreleased_extents_;  // imported extents whose release failed
  bool is_reserved_ = true;

  Mutex mutex_;
  std::vector<DeviceIndex> accessors_ ASHLAR_GUARDED_BY(mutex_);
};

// A plain allocation of another process.
class OpenedAllocation final : public ImportedRange {
 public:
  static Result<std::unique_ptr<OpenedAllocation>> open(Device& device,
                                                        const AllocationHandle& handle);

  // Queries the size of the allocation. Before that, `range` has 0 bytes.
  Status query_size();
  AddressRange range() const override { return range_; }
  // Does nothing, because all peers of the device can access plain memory.
  Status grant_access(DeviceIndex) override { return {}; }
  Status close() override;

 private:
  OpenedAllocation(Device& device, DeviceAddress begin) : device_(device), range_{begin, 0} {}

  Device& device_;
  AddressRange range_;
  bool is_open_ = true;
};

}  // namespace ashlar
