// SPDX-License-Identifier: Apache-2.0
//
// A segment that grows in place: a large reserved address range, into which memory is mapped one
// granule at a time as needed. A function that throws std::bad_alloc has changed nothing; `unmap`
// and the destructor allocate no host memory. Guarded by the engine's lock.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ashlar/device.h"

namespace ashlar::classic {

class ExpandableSegment {
 public:
  struct Options {
    StreamId stream;
    bool is_small = false;
    size_t granule_bytes = 0;
    size_t reserve_bytes = 0;    // a multiple of the granule
    bool can_export_fd = false;  // create extents that other processes can open
  };
  // `device` and `accessors` outlive the segment. Newly mapped memory is accessible to all devices
  // that `accessors` contains when the memory is mapped, which must include `device`.
  static Result<std::unique_ptr<ExpandableSegment>> create(
      Device& device, const Options& options, const std::vector<DeviceIndex>& accessors);
  // Unmaps all memory without waiting, and frees the addresses. Device errors are ignored.
  ~ExpandableSegment();

  AddressRange range() const { return range_; }
  StreamId stream() const { return stream_; }
  bool is_small() const { return is_small_; }
  size_t granule_bytes() const { return granule_bytes_; }
  size_t mapped_bytes() const { return mapped_bytes_; }
  bool can_export_fd() const { return can_export_fd_; }

  // Returns the granules that `range` overlaps. REQUIRES: the range is inside the segment.
  AddressRange granules_around(AddressRange range) const;
  // Returns the granules entirely inside `range`; empty if there are none. REQUIRES: the range is
  // inside the segment.
  AddressRange granules_inside(AddressRange range) const;
  // Returns the extents of the granules, in address order. REQUIRES: all of them are mapped.
  std::vector<ExtentId> extents_in(AddressRange granules) const;

  // Maps whole granules from `begin` until `bytes` are covered, and returns their size. On failure
  // no granule counts as mapped; granules that could not be unmapped again are unmapped by a later
  // call. REQUIRES: `begin` is granule-aligned, and no granule in the range is mapped.
  Result<size_t> map(DeviceAddress begin, size_t bytes);
  // Unmaps whole granules and releases their memory. If the device fails to release the memory,
  // `deferred_error` receives the error, and a later call retries. REQUIRES: all granules are
  // mapped, and no work uses them.
  Status unmap(AddressRange granules, Status& deferred_error);

  // Frees the addresses; afterwards only the destructor may be called. On failure, the segment
  // keeps its addresses and remains usable. REQUIRES: no granule is mapped.
  Status free_addresses();

  // Grants another device access to all mapped memory.
  Status grant_access_to(DeviceIndex accessor);

 private:
  ExpandableSegment(Device& device, const Options& options,
                    const std::vector<DeviceIndex>& accessors);
  void reserve_bookkeeping(size_t first_granule, size_t count);
  size_t granule_of(DeviceAddress address) const {
    return (address - range_.begin) / granule_bytes_;
  }
  DeviceAddress address_of(size_t granule) const { return range_.begin + granule * granule_bytes_; }
  Result<std::vector<ExtentId>> create_extents(size_t count);
  Status map_extents(size_t first_granule, const std::vector<ExtentId>& extents);
  // Grants all accessors access to newly mapped memory.
  Status grant_access(AddressRange range);
  // Calls `visit` for each contiguous run of mapped granules, until one call fails.
  Status for_each_run(const std::function<Status(AddressRange)>& visit) const;
  void release_extents(AddressRange range, Status& deferred_error);
  void release(ExtentId extent, Status& deferred_error);
  // Retries releases and unmaps that failed earlier.
  void release_leftovers(Status& deferred_error);

  Device& device_;
  const StreamId stream_;
  const bool is_small_;
  const size_t granule_bytes_;
  const bool can_export_fd_;
  AddressRange range_;  // constant after create
  const std::vector<DeviceIndex>& accessors_;
  std::vector<std::optional<ExtentId>> extents_;  // indexed by granule, up to the last mapped one
  std::vector<AddressRange> leftover_ranges_;  // mapped by a failed `map` that could not be undone
  // Extents that the device failed to release. Has capacity for all mapped extents as well.
  std::vector<ExtentId> leftover_extents_;
  size_t mapped_bytes_ = 0;
  bool has_addresses_ = false;
};

}  // namespace ashlar::classic
