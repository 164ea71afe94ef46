// SPDX-License-Identifier: Apache-2.0
//
// Sweeps over operations of an arbitrary fixture: the n-th allocation of host memory fails, for
// every n. Like host_fault_world.h, but for code above the engines.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include "base/text.h"
#include "sweep/host_allocation_faults.h"

namespace ashlar::sweep {

// One operation in a prepared state. `World` is default-constructible and has:
//   state()                    lines that must not change if the operation fails
//   expect_no_memory_lost()    frees everything and expects that all memory can be returned
template <typename World>
struct FaultOperation {
  std::string name;
  std::function<void(World&)> prepare{};
  // Throws std::bad_alloc if it fails. Called again after a failure.
  std::function<void(World&)> run{};
  // Whether a failed call may release cached memory or complete pending frees.
  bool may_change_caches = false;
  // Whether the operation must succeed whichever allocation fails.
  bool never_fails = false;

  friend std::ostream& operator<<(std::ostream& out, const FaultOperation& each) {
    return out << each.name;
  }
};

// Returns whether an allocation failed.
template <typename World>
bool run_operation_once(const FaultOperation<World>& operation, uint64_t nth) {
  World world;
  if (operation.prepare) operation.prepare(world);
  const std::vector<std::string> before = world.state();
  bool has_thrown = false;
  bool has_injected = false;
  {
    const HostAllocationFault fault(nth);
    try {
      operation.run(world);
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
    has_injected = fault.has_failed();
  }
  if (has_thrown) {
    EXPECT_TRUE(has_injected);
    EXPECT_FALSE(operation.never_fails);
    if (!operation.may_change_caches) {
      EXPECT_EQ(world.state(), before);
    }
    EXPECT_NO_THROW(operation.run(world));
  }
  world.expect_no_memory_lost();
  return has_injected;
}

template <typename World>
void expect_safe_operation(const FaultOperation<World>& operation) {
  run_operation_once(operation, UINT64_MAX);  // initializes objects that are created on first use
  uint64_t nth = 1;
  for (bool has_injected = true; has_injected; ++nth) {
    SCOPED_TRACE(text("allocation ", nth, " fails"));
    has_injected = run_operation_once(operation, nth);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace ashlar::sweep
