// SPDX-License-Identifier: Apache-2.0
//
// Multicast between simulated devices. Objects are shared between processes and follow the rules of
// the CUDA driver. The multicast address is reserved but not backed by memory: collectives access
// every rank's memory instead, which is what a switch does.
//
// Returns errors where hardware hangs or misbehaves: binding before all devices were added,
// importing after the creator released the object too early, releasing bound objects, unbinding
// freed memory.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "symm/backends/multicast/multicast.h"

namespace ashlar::symm {

class SimMulticast final : public MulticastDriver {
 public:
  // `device` must outlive this object.
  explicit SimMulticast(Device& device) : device_(device) {}
  ~SimMulticast() override;

  Status availability() const override { return {}; }
  Result<Object> create(const Shape& shape) override;
  Result<UniqueFd> export_fd(Object object) override;
  Result<Object> import_fd(int fd, const Shape& shape) override;
  Status add_device(Object object) override;
  Status bind(Object object, const std::shared_ptr<MappedMemory>& memory) override;
  Result<std::byte*> map(Object object) override;
  Status unmap(Object object, std::byte* at) override;
  Status unbind(Object object) override;
  Status release(Object object) override;

  // Returns the number of objects that have not been released.
  size_t live_count() const ASHLAR_EXCLUDES(mutex_);

 private:
  struct SharedState;
  struct Entry {
    UniqueFd fd{};
    SharedState* shared = nullptr;  // mapped from `fd`
    Shape shape{};
    bool is_creator = false;
    bool is_added = false;
    bool is_bound = false;
    std::weak_ptr<MappedMemory> bound{};
    std::byte* mapped_at = nullptr;
  };

  Result<Object> add_object(Entry entry) ASHLAR_EXCLUDES(mutex_);
  // Returns kInvalidArgument if there is no such object.
  Result<Entry*> find_locked(Object object) ASHLAR_REQUIRES(mutex_);
  void destroy(Entry& entry);

  Device& device_;

  mutable Mutex mutex_;
  Object last_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::map<Object, Entry> objects_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
