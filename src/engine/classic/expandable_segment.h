// SPDX-License-Identifier: Apache-2.0
//
// A segment that grows in place: many more addresses than memory, and memory mapped behind them
// one granule at a time, where it is needed. Guarded by the engine's lock.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ashlar/device.h"

namespace ashlar::classic {

class ExpandableSegment {
 public:
  struct Shape {
    StreamId stream;
    bool is_small = false;
    size_t granule_bytes = 0;
    size_t reserve_bytes = 0;    // a multiple of the granule
    bool can_export_fd = false;  // its extents are made so that other processes can open them
  };
  // `device` outlives the segment, and so does the list `accessors`: whatever it says when memory
  // is mapped, the device itself included, may touch that memory.
  static Result<std::unique_ptr<ExpandableSegment>> create(
      Device& device, const Shape& shape, const std::vector<DeviceIndex>& accessors);
  // Unmaps what is mapped, without waiting, and gives up the addresses. For what the device refuses
  // there is nobody left to tell.
  ~ExpandableSegment();

  AddressRange range() const { return range_; }
  StreamId stream() const { return stream_; }
  bool is_small() const { return is_small_; }
  size_t granule_bytes() const { return granule_bytes_; }
  size_t mapped_bytes() const { return mapped_bytes_; }
  bool can_export_fd() const { return can_export_fd_; }

  // The whole granules that a range touches, and what is mapped there. REQUIRES: inside the
  // segment; all of the range is mapped.
  AddressRange granules_around(AddressRange range) const;
  AddressRange granules_inside(AddressRange range) const;  // empty: none fits
  std::vector<ExtentId> extents_in(AddressRange granules) const;

  // Maps whole granules from `begin` so that `bytes` are covered, and says how many were mapped.
  // All or nothing. REQUIRES: begin is at a granule, nothing of the range is mapped.
  Result<size_t> map(DeviceAddress begin, size_t bytes);
  // Unmaps whole granules. Memory that the device then fails to take back is offered again later,
  // and `deferred_error` says why. REQUIRES: all of it is mapped, and no work needs it any more.
  Status unmap(AddressRange granules, Status& deferred_error);

  // Gives up the addresses; afterwards only the destructor may be called. If the device refuses,
  // the segment is as before and can be asked again. REQUIRES: nothing is mapped.
  Status free_addresses();

  // Opens what is mapped to another device.
  Status open_to(DeviceIndex accessor);

 private:
  ExpandableSegment(Device& device, const Shape& shape, DeviceAddress base,
                    const std::vector<DeviceIndex>& accessors);
  size_t granule_of(DeviceAddress at) const { return (at - range_.begin) / granule_bytes_; }
  DeviceAddress address_of(size_t granule) const { return range_.begin + granule * granule_bytes_; }
  Result<std::vector<ExtentId>> create_extents(size_t count);
  Status map_extents(size_t first_granule, const std::vector<ExtentId>& extents);
  Status open(AddressRange range);
  // Calls `visit` with each stretch of mapped granules, until one fails.
  Status for_each_run(const std::function<Status(AddressRange)>& visit) const;
  void release_extents(AddressRange range, Status& deferred_error);
  void release(ExtentId extent, Status& deferred_error);
  // Tries again to undo what the device did not let us undo before.
  void release_leftovers(Status& deferred_error);

  Device& device_;
  const StreamId stream_;
  const bool is_small_;
  const size_t granule_bytes_;
  const bool can_export_fd_;
  const AddressRange range_;
  const std::vector<DeviceIndex>& accessors_;
  std::vector<std::optional<ExtentId>> extents_;  // by granule; only as long as needed
  std::vector<AddressRange> strays_;  // mapped for nobody: mapping more failed, and undoing it too
  std::vector<ExtentId> leftovers_;   // counted nowhere, but the device did not take them back yet
  size_t mapped_bytes_ = 0;
  bool has_addresses_ = true;
};

}  // namespace ashlar::classic
