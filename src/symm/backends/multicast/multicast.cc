// SPDX-License-Identifier: Apache-2.0
//
// Sets up multicast step by step, and undoes it in reverse order.
#include "symm/backends/multicast/multicast.h"

#include <utility>

namespace ashlar::symm {

Result<FabricHandle> MulticastDriver::export_fabric(Object /*object*/) {
  return Status::unsupported("multicast of this back end does not span machines");
}

Result<MulticastDriver::Object> MulticastDriver::import_fabric(const FabricHandle& /*handle*/,
                                                               const Shape& /*shape*/) {
  return Status::unsupported("multicast of this back end does not span machines");
}

// Ignores errors, which a destructor cannot report. Other ranks do not wait for these calls.
Multicast::~Multicast() {
  if (base_ != nullptr) (void)driver_.unmap(object_, base_).ok();
  if (is_bound_) (void)driver_.unbind(object_).ok();
  if (is_imported_) (void)driver_.release(object_).ok();
}

Status Multicast::import_and_join(const MulticastHandle& handle,
                                  const MulticastDriver::Shape& shape) {
  const Result<MulticastDriver::Object> imported = shape.by_fabric
                                                       ? driver_.import_fabric(handle.fabric, shape)
                                                       : driver_.import_fd(handle.fd->get(), shape);
  if (!imported.ok()) return imported.status();
  object_ = *imported;
  is_imported_ = true;
  return driver_.add_device(object_);
}

Status Multicast::bind_and_map(const std::shared_ptr<MappedMemory>& memory) {
  if (Status bound = driver_.bind(object_, memory); !bound.ok()) return bound;
  is_bound_ = true;
  const Result<std::byte*> mapped = driver_.map(object_);
  if (!mapped.ok()) return mapped.status();
  base_ = *mapped;
  return {};
}

void MulticastReleaser::defer_releases() {
  MutexLock lock(mutex_);
  if (mode_ == Mode::kRelease) mode_ = Mode::kKeep;
}

void MulticastReleaser::release(Entry entry) {
  MutexLock lock(mutex_);
  if (mode_ == Mode::kKeep) kept_entries_.push_back(std::move(entry));
}

void MulticastReleaser::release_all() {
  std::vector<Entry> released;  // destroyed after the unlock; the destructors call the driver
  MutexLock lock(mutex_);
  mode_ = Mode::kReleaseFinally;
  released.swap(kept_entries_);
}

}  // namespace ashlar::symm
