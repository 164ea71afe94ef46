// SPDX-License-Identifier: Apache-2.0
//
// Multicast between CUDA devices through the driver (device/gpu/gpu_multicast.h). Stores the shape
// of each object, because the driver has no query for it. Thread safe.
#pragma once

#include <map>
#include <optional>

#include "base/mutex.h"
#include "device/gpu/gpu_multicast.h"
#include "symm/backends/multicast/multicast.h"

namespace ashlar::symm {

class CudaMulticast final : public MulticastDriver {
 public:
  // `device` must outlive this object.
  explicit CudaMulticast(gpu::GpuDevice& device);

  Status availability() const override { return availability_; }
  size_t granularity_bytes() const override { return granularity_bytes_; }
  Result<Object> create(const Shape& shape) override;
  Result<UniqueFd> export_fd(Object object) override;
  Result<Object> import_fd(int fd, const Shape& shape) override;
  Result<FabricHandle> export_fabric(Object object) override;
  Result<Object> import_fabric(const FabricHandle& handle, const Shape& shape) override;
  Status add_device(Object object) override;
  Status bind(Object object, const std::shared_ptr<MappedMemory>& memory) override;
  Result<std::byte*> map(Object object) override;
  Status unmap(Object object, std::byte* at) override;
  Status unbind(Object object) override;
  Status release(Object object) override;

 private:
  struct Entry {
    gpu::Handle handle = 0;
    Shape shape{};
    std::optional<AddressRange> mapped{};
  };

  Object add(gpu::Handle handle, const Shape& shape) ASHLAR_EXCLUDES(mutex_);
  // Returns a copy, so that no lock is held during driver calls, which may wait for other
  // processes.
  Result<Entry> find(Object object) const ASHLAR_EXCLUDES(mutex_);
  void set_mapped(Object object, std::optional<AddressRange> range) ASHLAR_EXCLUDES(mutex_);

  gpu::GpuMulticast multicast_;
  Status availability_;  // this and the next field are constant after construction
  size_t granularity_bytes_ = 1;

  mutable Mutex mutex_;
  Object last_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::map<Object, Entry> objects_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
