// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory for containers of the standard library:
//
//   ashlar::HostAllocator host(device);
//   ashlar::PinnedResource pinned(host);
//   std::pmr::vector<float> staging(1 << 20, &pinned);
//
// The HostAllocator serves every allocation; it rounds sizes up to whole pages or more and caches
// blocks by size.
// For many small allocations, use a pool on top: std::pmr::synchronized_pool_resource(&pinned).
//
// Memory that queued work still uses must not be freed, unless the stream of that work was recorded
// with HostAllocator::record_stream. A pool resource on top ignores recorded streams, because it
// reuses freed memory immediately.
//
// Errors: functions throw.
#pragma once

#include <cstddef>
#include <memory_resource>

#include "ashlar/export.h"

namespace ashlar {

class HostAllocator;

// A memory resource on a HostAllocator, which must outlive the resource. Resources of the same
// HostAllocator compare equal. Allocation throws OutOfMemory, which is a std::bad_alloc, or
// DeviceError. Thread safe.
class ASHLAR_EXPORT PinnedResource final : public std::pmr::memory_resource {
 public:
  explicit PinnedResource(HostAllocator& host) : host_(&host) {}
  HostAllocator& host() const { return *host_; }

 private:
  // Never returns null, not even for 0 bytes.
  void* do_allocate(size_t bytes, size_t alignment) override;
  // Throws InvalidArgument for memory of another allocator. Does not throw device errors: the
  // HostAllocator's next allocate or trim throws the first device error of the frees before it.
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  HostAllocator* host_;
};

}  // namespace ashlar
