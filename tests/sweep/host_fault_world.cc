// SPDX-License-Identifier: Apache-2.0
//
// Runs scenarios, and compares the state before and after operations that fail.
#include "sweep/host_fault_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "sweep/host_allocation_faults.h"

namespace ashlar::sweep {
namespace {

constexpr size_t kMaxLiveCount = 256;

struct Outcome {
  Status status;
  bool has_thrown = false;
  bool has_injected = false;  // whether an allocation failed

  bool ok() const { return status.ok() && !has_thrown; }
};

Outcome run_with_fault(HostFaultWorld& world, const HostFaultScenario& scenario, uint64_t nth) {
  Outcome outcome;
  const HostAllocationFault fault(nth);
  try {
    outcome.status = scenario.run(world);
  } catch (const std::bad_alloc&) {
    outcome.has_thrown = true;
  }
  outcome.has_injected = fault.has_failed();
  return outcome;
}

// Returns whether an allocation failed.
bool run_once(const EngineFactory& make, const HostFaultScenario& scenario, uint64_t nth) {
  HostFaultWorld world(make, scenario.max_mappings);
  if (scenario.prepare) scenario.prepare(world);
  world.expect_valid();
  const std::vector<std::string> before = world.state();
  const Outcome outcome = run_with_fault(world, scenario, nth);
  world.expect_valid();
  if (!outcome.ok()) {
    EXPECT_TRUE(outcome.has_injected) << outcome.status.to_string();
    EXPECT_FALSE(outcome.has_thrown && scenario.must_not_throw) << "std::bad_alloc";
    if (!scenario.may_change_caches) {
      EXPECT_EQ(world.state(), before);
    }
    const Status again = scenario.run(world);
    EXPECT_TRUE(again.ok()) << "the next call: " << again.to_string();
    world.expect_valid();
  }
  world.expect_no_memory_lost();
  return outcome.has_injected;
}

bool is_count_of_attempts(const std::string& name) {
  constexpr std::array kCounts = {"num_alloc_retries", "num_ooms", "num_sync_all_streams"};
  return std::find(kCounts.begin(), kCounts.end(), name) != kCounts.end();
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const HostFaultScenario& each) {
  return out << each.name;
}

HostFaultWorld::HostFaultWorld(const EngineFactory& make, size_t max_mappings) {
  sim::Options options;
  options.device_count = 1;
  options.capacity_bytes = 128 * kMiB;
  options.backing = sim::Backing::kBookkeeping;
  options.seed = 1;
  options.max_mappings = max_mappings;
  machine_ = *sim::Machine::try_create(options);
  side_ = *device().create_stream();
  checked_ = make(device());
  live.reserve(kMaxLiveCount);
  pools.reserve(kMaxLiveCount);
}

HostFaultWorld::~HostFaultWorld() = default;

Status HostFaultWorld::allocate(size_t bytes, StreamId stream) {
  Result<Block*> block = engine().allocate({bytes, stream});
  if (!block.ok()) return block.status();
  live.push_back(*block);
  return {};
}

Status HostFaultWorld::free_last() {
  Status freed = engine().free(live.back());
  live.pop_back();
  return freed;
}

void HostFaultWorld::must(const Status& status) { EXPECT_TRUE(status.ok()) << status.to_string(); }

void HostFaultWorld::keep_side_busy() {
  must(machine().pause_stream_until_waited(DeviceIndex{0}, side_));
  must(device().call_host(side_, [] {}));
}

void HostFaultWorld::finish_side() {
  must(machine().resume_stream(DeviceIndex{0}, side_));
  must(device().synchronize_stream(side_));
}

std::vector<std::string> HostFaultWorld::state() {
  std::vector<std::string> lines;
  for (const auto& [name, value] : engine().stats().flatten()) {
    if (value != 0 && !is_count_of_attempts(name)) lines.push_back(text(name, "=", value));
  }
  lines.push_back(text("device free=", device().memory_stats()->free_bytes));
  for (const SnapshotSegment& segment : engine().segments()) {
    lines.push_back(text("segment ", segment.address, ": ", segment.blocks.size(), " blocks"));
  }
  return lines;
}

void HostFaultWorld::expect_valid() {
  const Status valid = checked_.validate();
  EXPECT_TRUE(valid.ok()) << valid.to_string();
}

void HostFaultWorld::expect_no_memory_lost() {
  finish_side();
  while (!live.empty()) must(free_last());
  for (const PoolId pool : pools) (void)engine().end_routing(pool).ok();  // may have ended already
  for (const PoolId pool : std::exchange(pools, {})) must(engine().release_pool(pool));
  (void)engine().trim({}).ok();  // may still report an earlier failure
  must(engine().trim({}));
  expect_valid();
  const AllocatorStats stats = engine().stats();
  EXPECT_EQ(stats.allocation.all.current, 0);
  EXPECT_EQ(stats.active_bytes.all.current, 0);
  EXPECT_EQ(stats.requested_bytes.all.current, 0);
  EXPECT_EQ(stats.reserved_bytes.all.current, 0);
  EXPECT_EQ(stats.inactive_split_bytes.all.current, 0);
  EXPECT_LE(stats.pools.size(), 1U) << "a pool was not destroyed";
  const DeviceMemoryStats memory = *device().memory_stats();
  EXPECT_EQ(memory.free_bytes, memory.total_bytes);
}

void expect_safe_when_any_allocation_fails(const EngineFactory& make,
                                           const HostFaultScenario& scenario) {
  constexpr uint64_t kNever = UINT64_MAX;
  run_once(make, scenario, kNever);  // initializes objects that are created on first use
  uint64_t nth = 1;
  for (bool has_injected = true; has_injected; ++nth) {
    SCOPED_TRACE(text("allocation ", nth, " fails"));
    has_injected = run_once(make, scenario, nth);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace ashlar::sweep
