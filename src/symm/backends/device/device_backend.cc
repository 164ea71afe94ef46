// SPDX-License-Identifier: Apache-2.0
//
// Creates, maps, exports and imports extents.
#include "symm/backends/device/device_backend.h"

#include <algorithm>

#include "base/align.h"
#include "base/text.h"
#include "device/last_error.h"
#include "device/relaxed_capture.h"

namespace ashlar::symm {
namespace {

// One mapped extent. Destruction does not wait for device work: handles and groups wait for
// operations of symmetric memory (in_flight_work.h), and users for their own kernels.
class MappedExtent final : public MappedMemory {
 public:
  MappedExtent(Device& device, ExtentId extent, AddressRange range, Status fabric_status)
      : MappedMemory(reinterpret_cast<std::byte*>(range.begin.value()), range.bytes),
        device_(device),
        extent_(extent),
        range_(range),
        fabric_status_(std::move(fabric_status)) {}
  // Ignores errors, which a destructor cannot report. They are expected only if the device is lost;
  // its memory then stays allocated until the process exits.
  ~MappedExtent() override {
    (void)device_.unmap(range_).ok();
    (void)device_.free_addresses(range_).ok();
    (void)device_.release(extent_).ok();
  }

  Device& device() const { return device_; }
  ExtentId extent() const { return extent_; }
  // Returns an error if the device supports fabric handles but this memory was allocated without
  // support for them; otherwise ok.
  const Status& fabric_status() const { return fabric_status_; }

 private:
  Device& device_;
  const ExtentId extent_;
  const AddressRange range_;
  const Status fabric_status_;
};

}  // namespace

Result<std::unique_ptr<Backend>> DeviceBackend::make(Device& device,
                                                     std::unique_ptr<MulticastDriver> multicast) {
  const DeviceProperties& properties = device.properties();
  if (!properties.has_virtual_memory ||
      (!properties.can_export_fd && !properties.can_export_fabric)) {
    return Status::unsupported(text(
        "device ", properties.index, " of ", properties.backend, " (", properties.name, ") has ",
        properties.has_virtual_memory ? "no memory that can be shared with other processes"
                                      : "no virtual memory",
        ", which symmetric memory needs"));
  }
  return std::unique_ptr<Backend>(new DeviceBackend(device, std::move(multicast)));
}

Result<std::shared_ptr<MappedMemory>> DeviceBackend::allocate(size_t bytes, size_t zero_bytes) {
  const std::optional<uint64_t> rounded =
      try_align_up(std::max<uint64_t>(bytes, 1), uint64_t{granularity_bytes()});
  if (!rounded) {
    return Status::out_of_memory(text("symmetric memory of ", bytes, " bytes: too large"));
  }
  Result<CreatedExtent> created = create(*rounded);
  if (!created.ok()) return created.status();
  Result<std::shared_ptr<MappedMemory>> mapped = map(*std::move(created), *rounded);
  if (!mapped.ok() || zero_bytes == 0) return mapped;
  const DeviceAddress base(reinterpret_cast<uint64_t>((*mapped)->base()));
  if (Status zeroed = zero(base, zero_bytes); !zeroed.ok()) return zeroed;
  return mapped;
}

// Requests both export types if the device has them, since the type is chosen at the rendezvous. If
// that fails, other than for lack of memory or a lost device, falls back to descriptors and stores
// the reason: the IMEX service, which fabric handles need, may have stopped since the device was
// probed, or the driver may support only one type per allocation.
Result<DeviceBackend::CreatedExtent> DeviceBackend::create(size_t bytes) {
  const DeviceProperties& properties = device_.properties();
  CreateOptions options;
  options.can_export_fd = properties.can_export_fd;
  options.can_export_fabric = properties.can_export_fabric;
  SavedLastErrors before;
  const Result<ExtentId> extent = device_.create(bytes, options);
  if (extent.ok()) return CreatedExtent{*extent, {}};
  const Status& combined_error = extent.status();
  const bool is_final =
      combined_error.is(StatusKind::kOutOfMemory) || combined_error.is(StatusKind::kDeviceLost);
  if (is_final || !options.can_export_fabric || !options.can_export_fd) return combined_error;
  before.restore();
  options.can_export_fabric = false;
  const Result<ExtentId> descriptor_only = device_.create(bytes, options);
  if (!descriptor_only.ok()) return descriptor_only.status();
  return CreatedExtent{
      *descriptor_only,
      Status::unsupported(text("memory that can be exported both as a descriptor and as "
                               "a fabric handle was refused, so descriptors are used: ",
                               combined_error.failed_call(), ": ", combined_error.message()))};
}

size_t DeviceBackend::granularity_bytes() const {
  const size_t own = device_.properties().granularity_bytes;
  if (multicast_ == nullptr || !multicast_->availability().ok()) return own;
  return std::max(own, multicast_->granularity_bytes());
}

Result<std::shared_ptr<MappedMemory>> DeviceBackend::map(CreatedExtent created, size_t bytes) {
  const ExtentId extent = created.extent;
  const Result<DeviceAddress> at = device_.reserve(bytes);
  if (!at.ok()) {
    (void)device_.release(extent).ok();
    return at.status();
  }
  const AddressRange range{*at, bytes};
  Status mapped = device_.map(*at, extent);
  if (mapped.ok()) {
    mapped = device_.set_access(range, device_.properties().index, Access::kReadWrite);
    if (mapped.ok()) {
      return std::shared_ptr<MappedMemory>(
          std::make_shared<MappedExtent>(device_, extent, range, std::move(created.fabric_status)));
    }
    (void)device_.unmap(range).ok();
  }
  (void)device_.free_addresses(range).ok();
  (void)device_.release(extent).ok();
  return mapped;
}

// Uses a separate stream, so that the fill waits for no other work.
Status DeviceBackend::zero(DeviceAddress at, size_t bytes) {
  const RelaxedCapture relaxed(device_);
  const Result<StreamId> stream = device_.create_stream();
  if (!stream.ok()) return stream.status();
  Status done = device_.fill(at, 0, bytes, *stream);
  if (done.ok()) done = device_.synchronize_stream(*stream);
  const Status destroyed = device_.destroy_stream(*stream);
  return done.ok() ? destroyed : done;
}

ExtentId DeviceBackend::extent_of(const MappedMemory& memory) {
  return static_cast<const MappedExtent&>(memory).extent();
}

Result<UniqueFd> DeviceBackend::export_fd(const MappedMemory& memory) {
  const auto& own = static_cast<const MappedExtent&>(memory);
  return own.device().export_fd(own.extent());
}

Result<std::shared_ptr<MappedMemory>> DeviceBackend::import_fd(UniqueFd fd, size_t bytes) {
  return map_imported(device_.import_fd(fd.get(), bytes), bytes);
}

Status DeviceBackend::unsupported_error(std::string_view what) const {
  const DeviceProperties& own = device_.properties();
  return Status::unsupported(
      text("device ", own.index, " of ", own.backend, " (", own.name, ") has no ", what));
}

Status DeviceBackend::fd_availability() const {
  return device_.properties().can_export_fd ? Status()
                                            : unsupported_error("file descriptors for its memory");
}

Status DeviceBackend::fabric_availability() const {
  return device_.properties().can_export_fabric ? Status() : unsupported_error("fabric handles");
}

Result<FabricHandle> DeviceBackend::export_fabric(const MappedMemory& memory) {
  const auto& own = static_cast<const MappedExtent&>(memory);
  if (!own.fabric_status().ok()) return own.fabric_status();
  return own.device().export_fabric(own.extent());
}

Result<std::shared_ptr<MappedMemory>> DeviceBackend::import_fabric(const FabricHandle& handle,
                                                                   size_t bytes) {
  return map_imported(device_.import_fabric(handle, bytes), bytes);
}

// Maps an imported extent. The import returns kInvalidArgument if the descriptor or handle is
// invalid, or if the extent does not have `bytes` bytes.
Result<std::shared_ptr<MappedMemory>> DeviceBackend::map_imported(const Result<ExtentId>& extent,
                                                                  size_t bytes) {
  if (extent.status().is(StatusKind::kInvalidArgument)) {
    return Status::format(text("the peer sent no symmetric memory of ", bytes,
                               " bytes: ", extent.status().message()));
  }
  if (!extent.ok()) return extent.status();
  return map({*extent, {}}, bytes);
}

// If the memory was mapped for another device of this process, exports and imports it, because the
// mapping is not valid for this device.
Result<std::shared_ptr<MappedMemory>> DeviceBackend::adopt(std::shared_ptr<MappedMemory> memory) {
  const auto* own = dynamic_cast<const MappedExtent*>(memory.get());
  if (own == nullptr) return Status::format("the adopted memory is not device memory");
  if (&own->device() == &device_) return memory;
  const bool has_descriptors =
      own->device().properties().can_export_fd && device_.properties().can_export_fd;
  if (!has_descriptors) {
    const Result<FabricHandle> handle = export_fabric(*memory);
    if (!handle.ok()) return handle.status();
    return import_fabric(*handle, memory->bytes());
  }
  Result<UniqueFd> fd = export_fd(*memory);
  if (!fd.ok()) return fd.status();
  return import_fd(*std::move(fd), memory->bytes());
}

}  // namespace ashlar::symm
