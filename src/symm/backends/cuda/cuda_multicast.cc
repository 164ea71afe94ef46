// SPDX-License-Identifier: Apache-2.0
//
// Maps the ids of multicast objects to driver handles and shapes.
#include "symm/backends/cuda/cuda_multicast.h"

#include "base/text.h"
#include "device/last_error.h"
#include "symm/backends/device/device_backend.h"

namespace ashlar::symm {

CudaMulticast::CudaMulticast(gpu::GpuDevice& device)
    : multicast_(device), availability_(multicast_.availability()) {
  if (!availability_.ok()) return;
  SavedLastErrors before;
  const Result<size_t> granularity = multicast_.granularity();
  availability_ = granularity.status();
  if (granularity.ok()) granularity_bytes_ = *granularity;
  if (!granularity.ok()) before.restore();  // availability_ reports it
}

Result<CudaMulticast::Object> CudaMulticast::create(const Shape& shape) {
  gpu::Driver::MulticastRequest wanted;
  wanted.device_count = shape.device_count;
  wanted.bytes = shape.bytes;
  wanted.can_export_fd = !shape.by_fabric;
  wanted.can_export_fabric = shape.by_fabric;
  const Result<gpu::Handle> created = multicast_.create(wanted);
  if (!created.ok()) return created.status();
  return add(*created, shape);
}

Result<UniqueFd> CudaMulticast::export_fd(Object object) {
  const Result<Entry> entry = find(object);
  if (!entry.ok()) return entry.status();
  return multicast_.export_fd(entry->handle);
}

Result<CudaMulticast::Object> CudaMulticast::import_fd(int fd, const Shape& shape) {
  const Result<gpu::Handle> imported = multicast_.import_fd(fd);
  if (!imported.ok()) return imported.status();
  return add(*imported, shape);
}

Result<FabricHandle> CudaMulticast::export_fabric(Object object) {
  const Result<Entry> entry = find(object);
  if (!entry.ok()) return entry.status();
  return multicast_.export_fabric(entry->handle);
}

Result<CudaMulticast::Object> CudaMulticast::import_fabric(const FabricHandle& handle,
                                                           const Shape& shape) {
  const Result<gpu::Handle> imported = multicast_.import_fabric(handle);
  if (!imported.ok()) return imported.status();
  return add(*imported, shape);
}

Status CudaMulticast::add_device(Object object) {
  const Result<Entry> entry = find(object);
  return entry.ok() ? multicast_.add_device(entry->handle) : entry.status();
}

Status CudaMulticast::bind(Object object, const std::shared_ptr<MappedMemory>& memory) {
  const Result<Entry> entry = find(object);
  if (!entry.ok()) return entry.status();
  if (memory->bytes() != entry->shape.bytes) {
    return Status::invalid_argument(
        text(memory->bytes(), " bytes for a multicast object of ", entry->shape.bytes));
  }
  return multicast_.bind(entry->handle, DeviceBackend::extent_of(*memory));
}

Result<std::byte*> CudaMulticast::map(Object object) {
  const Result<Entry> entry = find(object);
  if (!entry.ok()) return entry.status();
  const Result<AddressRange> range = multicast_.map(entry->handle, entry->shape.bytes);
  if (!range.ok()) return range.status();
  set_mapped(object, *range);
  return reinterpret_cast<std::byte*>(range->begin.value());
}

Status CudaMulticast::unmap(Object object, std::byte* at) {
  const Result<Entry> entry = find(object);
  if (!entry.ok()) return entry.status();
  if (!entry->mapped || entry->mapped->begin.value() != reinterpret_cast<uint64_t>(at)) {
    return Status::invalid_argument("the multicast object is not mapped there");
  }
  Status unmapped = multicast_.unmap(*entry->mapped);
  if (unmapped.ok()) set_mapped(object, std::nullopt);
  return unmapped;
}

Status CudaMulticast::unbind(Object object) {
  const Result<Entry> entry = find(object);
  if (!entry.ok()) return entry.status();
  return multicast_.unbind(entry->handle, entry->shape.bytes);
}

Status CudaMulticast::release(Object object) {
  const Result<Entry> entry = find(object);
  if (!entry.ok()) return entry.status();
  Status released = multicast_.release(entry->handle);
  if (!released.ok()) return released;
  MutexLock lock(mutex_);
  objects_.erase(object);
  return {};
}

CudaMulticast::Object CudaMulticast::add(gpu::Handle handle, const Shape& shape) {
  MutexLock lock(mutex_);
  objects_.emplace(++last_, Entry{handle, shape, {}});
  return last_;
}

Result<CudaMulticast::Entry> CudaMulticast::find(Object object) const {
  MutexLock lock(mutex_);
  const auto found = objects_.find(object);
  if (found == objects_.end())
    return Status::invalid_argument(text("there is no multicast object ", object));
  return found->second;
}

void CudaMulticast::set_mapped(Object object, std::optional<AddressRange> range) {
  MutexLock lock(mutex_);
  objects_.at(object).mapped = range;
}

}  // namespace ashlar::symm
