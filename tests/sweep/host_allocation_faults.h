// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th allocation of host memory. Linking host_allocation_faults.cc into a program
// replaces operator new by a version that fails on demand; memory still comes from malloc, so that
// sanitizers see leaks. Allocations of other threads never fail.
#pragma once

#include <cstdint>

namespace ashlar::sweep {

// During its lifetime, the nth allocation of the calling thread fails (1 is the next allocation).
// Must not be nested.
class HostAllocationFault {
 public:
  explicit HostAllocationFault(uint64_t nth) noexcept;
  ~HostAllocationFault();
  HostAllocationFault(const HostAllocationFault&) = delete;
  HostAllocationFault& operator=(const HostAllocationFault&) = delete;

  bool has_failed() const noexcept;
};

// During its lifetime, allocations of the calling thread neither fail nor count. Used for the
// test's own code inside a HostAllocationFault. May be nested.
class HostAllocationExemption {
 public:
  HostAllocationExemption() noexcept;
  ~HostAllocationExemption();
  HostAllocationExemption(const HostAllocationExemption&) = delete;
  HostAllocationExemption& operator=(const HostAllocationExemption&) = delete;
};

}  // namespace ashlar::sweep
