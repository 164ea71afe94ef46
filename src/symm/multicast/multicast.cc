// Forward in steps, and back in reverse.
#include "symm/multicast/multicast.h"

namespace ashlar::symm {

// Nothing can be done about what fails here, and the others do not wait for it.
Multicast::~Multicast() {
  if (base_ != nullptr) (void)driver_.unmap(object_, base_).ok();
  if (is_bound_) (void)driver_.unbind(object_).ok();
  if (is_imported_) (void)driver_.release(object_).ok();
}

Status Multicast::import_and_join(int fd, const MulticastDriver::Shape& shape) {
  const Result<MulticastDriver::Object> imported = driver_.import_fd(fd, shape);
  if (!imported.ok()) return imported.status();
  object_ = *imported;
  is_imported_ = true;
  return driver_.add_device(object_);
}

Status Multicast::bind_and_map(const std::shared_ptr<Memory>& memory) {
  if (Status bound = driver_.bind(object_, memory); !bound.ok()) return bound;
  is_bound_ = true;
  const Result<std::byte*> mapped = driver_.map(object_);
  if (!mapped.ok()) return mapped.status();
  base_ = *mapped;
  return {};
}

}  // namespace ashlar::symm
