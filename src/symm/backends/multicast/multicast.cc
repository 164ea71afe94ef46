// SPDX-License-Identifier: Apache-2.0
//
// Forward in steps, and back in reverse.
#include "symm/backends/multicast/multicast.h"

namespace ashlar::symm {

Result<FabricHandle> MulticastDriver::export_fabric(Object /*object*/) {
  return Status::unsupported("multicast of this back end does not get to other machines");
}

Result<MulticastDriver::Object> MulticastDriver::import_fabric(const FabricHandle& /*handle*/,
                                                               const Shape& /*shape*/) {
  return Status::unsupported("multicast of this back end does not come from other machines");
}

// Nothing can be done about what fails here, and the others do not wait for it.
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

}  // namespace ashlar::symm
