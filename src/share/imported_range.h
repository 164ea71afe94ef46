// SPDX-License-Identifier: Apache-2.0
//
// Another process's memory in this process's address space: granules imported one by one, or an
// opened plain allocation. Independent of sockets and leases. Thread safe where stated.
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
  // Grants another device of this process access. Idempotent. Thread safe.
  virtual Status open_to(DeviceIndex accessor) = 0;
  // Undoes the import. After a failure it can be called again and continues. A range that was never
  // closed is leaked; the destructor does not close it. REQUIRES: no work uses the range.
  virtual Status close() = 0;
};

// An address range of exactly granule_count granules; memory is added from first to last.
class ImportedGranules final : public ImportedRange {
 public:
  struct Shape {
    size_t granule_bytes = 0;
    size_t granule_count = 0;
  };
  static Result<std::unique_ptr<ImportedGranules>> reserve(Device& device, const Shape& shape);

  // Imports and maps the next granule. Does not take ownership of `fd`. REQUIRES: a granule is
  // missing. After a failure the range can only be closed.
  Status add(int fd);
  size_t granule_count() const { return mapped_count_; }

  AddressRange range() const override { return range_; }
  Status open_to(DeviceIndex accessor) override;
  Status close() override;

 private:
  ImportedGranules(Device& device, size_t granule_bytes, AddressRange range)
      : device_(device), granule_bytes_(granule_bytes), range_(range) {}

  Device& device_;
  const size_t granule_bytes_;
  const AddressRange range_;
  size_t mapped_count_ = 0;          // changed by add and close only
  std::vector<ExtentId> leftovers_;  // extents that the device has not released
  bool is_reserved_ = true;

  Mutex mutex_;
  std::vector<DeviceIndex> accessors_ ASHLAR_GUARDED_BY(mutex_);
};

class OpenedAllocation final : public ImportedRange {
 public:
  static Result<std::unique_ptr<OpenedAllocation>> open(Device& device,
                                                        const AllocationHandle& handle);

  // Queries the size; until then `range` has 0 bytes.
  Status measure();
  AddressRange range() const override { return range_; }
  // Plain memory is accessible to all peers of its device.
  Status open_to(DeviceIndex) override { return {}; }
  Status close() override;

 private:
  OpenedAllocation(Device& device, DeviceAddress begin) : device_(device), range_{begin, 0} {}

  Device& device_;
  AddressRange range_;
  bool is_open_ = true;
};

}  // namespace ashlar
