// SPDX-License-Identifier: Apache-2.0
//
// Addresses, extents, and where they meet.
#include <algorithm>
#include <bit>

#include "base/align.h"
#include "base/text.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {
namespace {

Status no_virtual_memory() { return Status::unsupported("this device has no virtual memory"); }

}  // namespace

Status GpuDevice::check_granules(const char* act, size_t bytes) const {
  if (!properties_.has_virtual_memory) return no_virtual_memory();
  const size_t granularity = properties_.granularity_bytes;
  if (bytes != 0 && is_aligned(bytes, granularity)) return {};
  return Status::invalid_argument(text("cannot ", act, " ", bytes,
                                       " B: expected a positive multiple of the granularity, ",
                                       granularity));
}

// --- addresses ----------------------------------------------------------------------------------

Result<DeviceAddress> GpuDevice::reserve(size_t bytes, const ReserveOptions& options) {
  return call([&]() -> Result<DeviceAddress> {
    if (Status sized = check_granules("reserve", bytes); !sized.ok()) return sized;
    if (options.alignment_bytes != 0 && !std::has_single_bit(options.alignment_bytes)) {
      return Status::invalid_argument(
          text("cannot align to ", options.alignment_bytes, ": expected a power of two"));
    }
    const size_t alignment = std::max(options.alignment_bytes, properties_.granularity_bytes);
    Result<AddressRange> whole = reserve_range(bytes, alignment, options.hint);
    if (!whole.ok()) return whole.status();
    const DeviceAddress begin(align_up(whole->begin.value(), alignment));
    common_.places.add({.range = {begin, bytes}, .whole = *whole, .owner = index()});
    return begin;
  });
}

// What the driver reserves, with an aligned range of `bytes` in it. A hint that it does not like
// is forgotten; an alignment that it does not honour is made up for by reserving more.
Result<AddressRange> GpuDevice::reserve_range(size_t bytes, size_t alignment_bytes,
                                              DeviceAddress hint) {
  DeviceAddress at;
  const bool is_sensible = !hint.is_null() && is_aligned(hint.value(), alignment_bytes) &&
                           !AddressRange{hint, bytes}.overflows();
  Outcome reserved;
  if (is_sensible) reserved = driver().reserve({bytes, alignment_bytes, hint}, at);
  if (!is_sensible || !reserved.ok()) {
    reserved = driver().reserve({bytes, alignment_bytes, {}}, at);
  }
  if (reserved.ok() && is_aligned(at.value(), alignment_bytes)) return AddressRange{at, bytes};
  if (reserved.ok()) (void)driver().free_addresses({at, bytes});
  const size_t larger_bytes = bytes + alignment_bytes;
  if (larger_bytes > bytes && alignment_bytes > properties_.granularity_bytes) {
    reserved = driver().reserve({larger_bytes, 0, {}}, at);
    if (reserved.ok()) return AddressRange{at, larger_bytes};
  }
  // Which of its numbers a driver uses for a range that is too large is anybody's guess.
  Status failed = done(reserved);
  if (!failed.is(StatusKind::kInvalidArgument) && !failed.is(StatusKind::kUnsupported))
    return failed;
  return Status::out_of_memory(text("no ", bytes, " B of addresses: ", failed.message()));
}

Status GpuDevice::free_addresses(AddressRange range) {
  return call([&]() -> Status {
    if (!properties_.has_virtual_memory) return no_virtual_memory();
    MutexLock lock(mapping_mutex_);
    const Result<Places::Reservation> found = common_.places.find_empty_reservation(range, index());
    if (!found.ok()) return found.status();
    // Noted as gone before it is: another thread may be given the same addresses at once.
    common_.places.remove_reservation(range.begin);
    Status freed = done(driver().free_addresses(found->whole));
    if (!freed.ok()) common_.places.add(*found);
    return freed;
  });
}

// --- extents ------------------------------------------------------------------------------------

Result<ExtentId> GpuDevice::create(size_t bytes, const CreateOptions& options) {
  return call([&]() -> Result<ExtentId> {
    if (Status sized = check_granules("create", bytes); !sized.ok()) return sized;
    if (options.export_fd && !properties_.can_export_fd) {
      return Status::unsupported("this device exports no file descriptors");
    }
    if (options.export_fabric && !properties_.can_export_fabric) {
      return Status::unsupported("this device exports no fabric handles");
    }
    if (Status fits = refuse_too_large(bytes); !fits.ok()) return fits;
    Extent extent{0, bytes, options, false};
    const Driver::Create wanted{ordinal(), bytes, options.export_fd, options.export_fabric,
                                facts_.has_rdma};
    if (Status made = done(driver().create(wanted, extent.handle)); !made.ok()) return made;
    return keep_extent(extent);
  });
}

Status GpuDevice::release(ExtentId id) {
  return call([&]() -> Status {
    const Result<Extent> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    {
      MutexLock lock(mutex_);
      if (extents_.erase(id) == 0) {
        return Status::invalid_argument(
            text("extent ", id, " is being released by another thread"));
      }
    }
    Status released = done(driver().release(extent->handle));
    if (!released.ok()) {
      MutexLock lock(mutex_);
      extents_.emplace(id, *extent);
    }
    return released;
  });
}

Result<GpuDevice::Extent> GpuDevice::find_extent(ExtentId id) const {
  MutexLock lock(mutex_);
  const auto found = extents_.find(id);
  if (found == extents_.end()) {
    return Status::invalid_argument(text("extent ", id, " is not an extent of device ", index()));
  }
  return found->second;
}

ExtentId GpuDevice::keep_extent(const Extent& extent) {
  const ExtentId id(common_.last_extent.fetch_add(1, std::memory_order_relaxed) + 1);
  MutexLock lock(mutex_);
  extents_.emplace(id, extent);
  return id;
}

// --- mappings -----------------------------------------------------------------------------------

Status GpuDevice::map(DeviceAddress at, ExtentId id) {
  return call([&]() -> Status {
    if (!properties_.has_virtual_memory) return no_virtual_memory();
    const Result<Extent> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    const AddressRange range{at, extent->bytes};
    if (!is_aligned(at.value(), properties_.granularity_bytes)) {
      return Status::invalid_argument(text("cannot map at ", at,
                                           ": expected a multiple of the granularity, ",
                                           properties_.granularity_bytes));
    }
    MutexLock lock(mapping_mutex_);
    if (Status free = common_.places.check_free(range, index()); !free.ok()) return free;
    if (!properties_.can_alias && common_.places.is_mapped(id)) {
      return Status::invalid_argument(
          text("extent ", id, " is mapped already, and this device maps it once"));
    }
    if (Status mapped = done(driver().map(range, extent->handle)); !mapped.ok()) return mapped;
    common_.places.add_mapping(range, id, index());
    return {};
  });
}

Status GpuDevice::set_access(AddressRange range, DeviceIndex accessor, Access access) {
  return call([&]() -> Status {
    if (!properties_.has_virtual_memory) return no_virtual_memory();
    if (Status known = check_peer(accessor); !known.ok()) return known;
    MutexLock lock(mapping_mutex_);
    Status whole = common_.places.check_whole_extents(range, index());
    if (!whole.ok()) return whole;
    const int accessor_ordinal = static_cast<int>(accessor.value());
    if (accessor != index()) {
      bool can = false;
      const Outcome asked = driver().can_access_peer(accessor_ordinal, ordinal(), can);
      if (Status answered = done(asked); !answered.ok()) return answered;
      if (!can) {
        return Status::unsupported(text("device ", accessor, " cannot reach device ", index()));
      }
    }
    Status set = done(driver().set_access(range, accessor_ordinal, access));
    // The range is right, so it must be the kind of access that the driver does not know.
    if (set.is(StatusKind::kInvalidArgument) && access == Access::kRead) {
      return Status::unsupported(set.message());
    }
    if (set.ok()) common_.places.set_access(range, accessor, access);
    return set;
  });
}

Status GpuDevice::unmap(AddressRange range) {
  return call([&]() -> Status {
    if (!properties_.has_virtual_memory) return no_virtual_memory();
    MutexLock lock(mapping_mutex_);
    Status whole = common_.places.check_whole_extents(range, index());
    if (!whole.ok()) return whole;
    Status unmapped = done(driver().unmap(range));
    if (unmapped.ok()) common_.places.remove_mappings(range);
    return unmapped;
  });
}

}  // namespace ashlar::gpu
