// SPDX-License-Identifier: Apache-2.0
//
// Fails allocations of host memory. Linking host_allocation_faults.cc into a program
// replaces operator new by a version that fails on demand; memory still comes from malloc, so that
// sanitizers see leaks.
#pragma once

#include <cstdint>

namespace ashlar::sweep {

// During its lifetime, the nth allocation of the calling thread fails (1 is the next allocation).
// Allocations of other threads do not fail. Must not be nested.
class HostAllocationFault {
 public:
  explicit HostAllocationFault(uint64_t nth) noexcept;
  ~HostAllocationFault();
  HostAllocationFault(const HostAllocationFault&) = delete;
  HostAllocationFault& operator=(const HostAllocationFault&) = delete;

  bool has_failed() const noexcept;
};

// During its lifetime, a HostAllocationFault neither fails nor counts allocations of the calling
// thread. Used for the test's own code inside a HostAllocationFault. May be nested.
class HostAllocationExemption {
 public:
  HostAllocationExemption() noexcept;
  ~HostAllocationExemption();
  HostAllocationExemption(const HostAllocationExemption&) = delete;
  HostAllocationExemption& operator=(const HostAllocationExemption&) = delete;
};

// During its lifetime, all allocations of other threads fail. Only one may exist.
class OtherThreadsFault {
 public:
  OtherThreadsFault() noexcept;
  ~OtherThreadsFault();
  OtherThreadsFault(const OtherThreadsFault&) = delete;
  OtherThreadsFault& operator=(const OtherThreadsFault&) = delete;

  // Returns how many allocations of other threads have failed.
  uint64_t failure_count() const noexcept;
};

}  // namespace ashlar::sweep
