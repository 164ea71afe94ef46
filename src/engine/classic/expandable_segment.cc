// SPDX-License-Identifier: Apache-2.0
//
// Creates one extent per granule, and maps or unmaps contiguous runs of granules.
#include "engine/classic/expandable_segment.h"

#include <algorithm>

#include "base/align.h"
#include "base/host_memory.h"

namespace ashlar::classic {

Result<std::unique_ptr<ExpandableSegment>> ExpandableSegment::create(
    Device& device, const Options& options, const std::vector<DeviceIndex>& accessors) {
  std::unique_ptr<ExpandableSegment> segment(new ExpandableSegment(device, options, accessors));
  const Result<DeviceAddress> base = device.reserve(options.reserve_bytes);
  if (!base.ok()) return base.status();
  segment->range_ = {*base, options.reserve_bytes};
  segment->has_addresses_ = true;
  return segment;
}

ExpandableSegment::ExpandableSegment(Device& device, const Options& options,
                                     const std::vector<DeviceIndex>& accessors)
    : device_(device),
      stream_(options.stream),
      is_small_(options.is_small),
      granule_bytes_(options.granule_bytes),
      can_export_fd_(options.can_export_fd),
      accessors_(accessors) {}

ExpandableSegment::~ExpandableSegment() {
  // Continues after an error, because the device may be able to unmap the other runs. Retries every
  // failed call once, because no later call can.
  (void)for_each_run([this](AddressRange run) {
    if (!device_.unmap(run).ok()) (void)device_.unmap(run).ok();
    return Status();
  }).ok();
  Status ignored;
  release_extents(range_, ignored);
  if (has_addresses_ && !free_addresses().ok()) (void)free_addresses().ok();
}

Status ExpandableSegment::free_addresses() {
  Status left;
  release_leftovers(left);
  if (!left.ok()) return left;
  Status freed = device_.free_addresses(range_);
  has_addresses_ = !freed.ok();
  return freed;
}

Result<size_t> ExpandableSegment::map(DeviceAddress begin, size_t bytes) {
  if (!leftover_ranges_.empty()) {
    Status left;
    release_leftovers(left);
    if (!leftover_ranges_.empty()) return left;  // one may overlap the range to map
  }
  const size_t first = granule_of(begin);
  const size_t count = (bytes + granule_bytes_ - 1) / granule_bytes_;
  reserve_bookkeeping(first, count);
  Result<std::vector<ExtentId>> extents = create_extents(count);
  if (!extents.ok()) return extents.status();
  if (Status mapped = map_extents(first, *extents); !mapped.ok()) {
    Status ignored;  // the mapping error is the one to report
    for (ExtentId extent : *extents) release(extent, ignored);
    return mapped;
  }
  if (extents_.size() < first + count) extents_.resize(first + count);
  for (size_t i = 0; i < count; ++i) extents_[first + i] = (*extents)[i];
  mapped_bytes_ += count * granule_bytes_;
  return count * granule_bytes_;
}

// Allocates the host memory that mapping and later unmapping the granules need.
void ExpandableSegment::reserve_bookkeeping(size_t first_granule, size_t count) {
  const size_t mapped_count = mapped_bytes_ / granule_bytes_;
  reserve_amortized(extents_, first_granule + count);
  reserve_amortized(leftover_ranges_, leftover_ranges_.size() + 1);
  reserve_amortized(leftover_extents_, leftover_extents_.size() + mapped_count + count);
}

Result<std::vector<ExtentId>> ExpandableSegment::create_extents(size_t count) {
  std::vector<ExtentId> extents;
  extents.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    Result<ExtentId> extent = device_.create(granule_bytes_, {.can_export_fd = can_export_fd_});
    if (!extent.ok()) {
      Status ignored;  // the creation error is the one to report
      for (ExtentId made : extents) release(made, ignored);
      return extent.status();
    }
    extents.push_back(*extent);
  }
  return extents;
}

Status ExpandableSegment::map_extents(size_t first_granule, const std::vector<ExtentId>& extents) {
  const DeviceAddress begin = address_of(first_granule);
  size_t mapped_count = 0;
  Status status;
  while (mapped_count < extents.size()) {
    status = device_.map(address_of(first_granule + mapped_count), extents[mapped_count]);
    if (!status.ok()) break;
    ++mapped_count;
  }
  if (status.ok()) status = grant_access({begin, extents.size() * granule_bytes_});
  if (!status.ok() && mapped_count > 0) {
    const AddressRange mapped{begin, mapped_count * granule_bytes_};
    if (!device_.unmap(mapped).ok()) leftover_ranges_.push_back(mapped);
  }
  return status;
}

Status ExpandableSegment::grant_access(AddressRange range) {
  for (DeviceIndex accessor : accessors_) {
    Status opened = device_.set_access(range, accessor, Access::kReadWrite);
    if (!opened.ok()) return opened;
  }
  return {};
}

Status ExpandableSegment::unmap(AddressRange granules, Status& deferred_error) {
  if (Status unmapped = device_.unmap(granules); !unmapped.ok()) return unmapped;
  release_leftovers(deferred_error);
  release_extents(granules, deferred_error);
  return {};
}

AddressRange ExpandableSegment::granules_inside(AddressRange range) const {
  const size_t begin_offset = round_up(range.begin - range_.begin, granule_bytes_);
  const size_t end_offset = (range.end() - range_.begin) / granule_bytes_ * granule_bytes_;
  if (begin_offset >= end_offset) return {};
  return {range_.begin + begin_offset, end_offset - begin_offset};
}

AddressRange ExpandableSegment::granules_around(AddressRange range) const {
  const size_t begin = granule_of(range.begin);
  const size_t end = (range.end() - range_.begin + granule_bytes_ - 1) / granule_bytes_;
  return {address_of(begin), (end - begin) * granule_bytes_};
}

std::vector<ExtentId> ExpandableSegment::extents_in(AddressRange granules) const {
  std::vector<ExtentId> extents;
  const size_t end = granule_of(granules.end());
  for (size_t i = granule_of(granules.begin); i < end; ++i) extents.push_back(*extents_[i]);
  return extents;
}

void ExpandableSegment::release_extents(AddressRange range, Status& deferred_error) {
  const size_t end = std::min(granule_of(range.end()), extents_.size());
  for (size_t i = granule_of(range.begin); i < end; ++i) {
    if (!extents_[i]) continue;
    release(*extents_[i], deferred_error);
    extents_[i].reset();
    mapped_bytes_ -= granule_bytes_;
  }
  while (!extents_.empty() && !extents_.back()) extents_.pop_back();
}

void ExpandableSegment::release(ExtentId extent, Status& deferred_error) {
  Status released = device_.release(extent);
  if (released.ok()) return;
  if (deferred_error.ok()) deferred_error = released;
  leftover_extents_.push_back(extent);
}

void ExpandableSegment::release_leftovers(Status& deferred_error) {
  const auto is_done = [&](Status done) {
    if (!done.ok() && deferred_error.ok()) deferred_error = done;
    return done.ok();
  };
  std::erase_if(leftover_ranges_,
                [&](const AddressRange& stray) { return is_done(device_.unmap(stray)); });
  std::erase_if(leftover_extents_,
                [&](ExtentId extent) { return is_done(device_.release(extent)); });
}

Status ExpandableSegment::grant_access_to(DeviceIndex accessor) {
  return for_each_run(
      [&](AddressRange run) { return device_.set_access(run, accessor, Access::kReadWrite); });
}

Status ExpandableSegment::for_each_run(const std::function<Status(AddressRange)>& visit) const {
  for (size_t i = 0; i < extents_.size();) {
    size_t end = i;
    while (end < extents_.size() && extents_[end]) ++end;
    if (end > i) {
      Status visited = visit({address_of(i), (end - i) * granule_bytes_});
      if (!visited.ok()) return visited;
    }
    i = end + 1;
  }
  return {};
}

}  // namespace ashlar::classic
