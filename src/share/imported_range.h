// SPDX-License-Identifier: Apache-2.0
//
// Another process's memory under addresses of this one: granules imported one by one, or one plain
// allocation opened. Knows nothing of sockets or leases. Thread safe where it says so.
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
  // Another device of this process may touch it, too. Saying so twice is fine. Thread safe.
  virtual Status open_to(DeviceIndex accessor) = 0;
  // Undoes the import. What fails can be tried again, and goes on where it stopped; a range that
  // was not closed is leaked, not closed by the destructor. REQUIRES: no work uses it.
  virtual Status close() = 0;
};

// Exactly as many addresses as there are granules; memory is added from the first to the last.
class ImportedGranules final : public ImportedRange {
 public:
  struct Shape {
    size_t granule_bytes = 0;
    size_t granule_count = 0;
  };
  static Result<std::unique_ptr<ImportedGranules>> reserve(Device& device, const Shape& shape);

  // Puts the next granule in place. The descriptor stays the caller's. REQUIRES: one is missing.
  // If it fails, the range is good for nothing but to be closed.
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
  std::vector<ExtentId> leftovers_;  // whose ids the device did not take back yet
  bool is_reserved_ = true;

  Mutex mutex_;
  std::vector<DeviceIndex> accessors_ ASHLAR_GUARDED_BY(mutex_);
};

class OpenedAllocation final : public ImportedRange {
 public:
  static Result<std::unique_ptr<OpenedAllocation>> open(Device& device,
                                                        const AllocationHandle& handle);

  // Asks the device how large it is; 0 B before.
  Status measure();
  AddressRange range() const override { return range_; }
  // Plain memory is open to the peers of its device, whoever allocated it.
  Status open_to(DeviceIndex) override { return {}; }
  Status close() override;

 private:
  OpenedAllocation(Device& device, DeviceAddress begin) : device_(device), range_{begin, 0} {}

  Device& device_;
  AddressRange range_;
  bool is_open_ = true;
};

}  // namespace ashlar
