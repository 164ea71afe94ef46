// SPDX-License-Identifier: Apache-2.0
//
// Creates the pool, routes allocations to it, and releases it.
#include "session.h"

#include <gtest/gtest.h>

namespace ashlar::stress {

Session::Session(Environment& environment, Random& random)
    : environment_(environment),
      device_(random.below(kDeviceCount)),
      pool_{0, environment.next_pool()} {
  options_.never_remap = random.below(3) == 0;
  options_.no_split = random.below(6) == 0;
  options_.use_on_oom = random.below(3) == 0;
  paged::PagedEngine& engine = environment_.engine(device_);
  expect_ok_or_fault(engine.create_pool(pool_, options_));
  expect_ok_or_fault(engine.begin_routing(pool_, when_selected(pool_)));
}

Session::~Session() {
  paged::PagedEngine& engine = environment_.engine(device_);
  expect_ok_or_fault(engine.end_routing(pool_));
  release_pool_fully(engine, pool_);
  const Status trimmed = engine.trim(pool_);
  // kInvalidArgument: another thread's trim has already destroyed the pool.
  if (!trimmed.is(StatusKind::kInvalidArgument)) expect_ok_or_fault(trimmed);
}

Result<LiveBlock> Session::allocate(const AllocationRequest& request) {
  const PoolSelection selection(pool_);
  Result<LiveBlock> held = environment_.allocate(device_, request);
  if (held.ok() && options_.never_remap) expect_not_remapped(*held);
  return held;
}

void Session::expect_not_remapped(const LiveBlock& held) {
  const BlockMemory memory = environment_.engine(device_).block_memory(held.block);
  if (memory.origin != BlockMemory::Origin::kExtents) return;
  DeviceAddress at = memory.range.begin;
  for (const ExtentId extent : memory.extents) {
    const auto [known, is_new] = first_addresses_.emplace(extent, at);
    EXPECT_EQ(known->second, at) << "memory is not where it was registered";
    at = at + memory.granule_bytes;
  }
}

}  // namespace ashlar::stress
