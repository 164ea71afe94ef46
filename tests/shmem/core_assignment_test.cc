// SPDX-License-Identifier: Apache-2.0
//
// Assignment of cores to processes with equal, disjoint and nested affinity masks.
#include "shmem/core_assignment.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace ashlar::shmem {
namespace {

cpu_set_t cores(std::initializer_list<size_t> numbers) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const size_t each : numbers) CPU_SET(each, &set);
  return set;
}

TEST(CoreAssignment, SucceedsIfEachProcessCanUseACore) {
  EXPECT_TRUE(can_assign_cores({cores({1023})}));
  EXPECT_TRUE(can_assign_cores({cores({0, 1}), cores({0, 1})}));
  EXPECT_TRUE(can_assign_cores({cores({0, 1}), cores({2, 3})}));
  // The process with fewer cores is assigned first.
  EXPECT_TRUE(can_assign_cores({cores({0, 1, 2}), cores({0, 1}), cores({0})}));
}

TEST(CoreAssignment, FailsIfAProcessHasNoCoreOfItsOwn) {
  EXPECT_FALSE(can_assign_cores({cores({0}), cores({0})}));
  // The first two processes cannot use the four cores of the third.
  EXPECT_FALSE(can_assign_cores({cores({0}), cores({0}), cores({2, 3, 4, 5})}));
  EXPECT_FALSE(can_assign_cores({cores({0, 1}), cores({})}));
}

}  // namespace
}  // namespace ashlar::shmem
