// SPDX-License-Identifier: Apache-2.0
//
// Sweeps that fail the n-th allocation of host memory of one engine operation, for every n. Such an
// operation either succeeds or fails without effect: it throws std::bad_alloc or, if the device
// itself reports the lack of memory, returns that status. With `may_change_caches`, a failed
// operation may change caches and pending frees.
//
// A scenario is one operation in a prepared state. host_fault_scenarios.cc has the scenarios of all
// engines; each engine adds its own in <engine>_host_faults_test.cc.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "ashlar/sim.h"
#include "engine/engine.h"

namespace ashlar::sweep {

// An engine, and the function that checks its invariants.
struct CheckedEngine {
  std::unique_ptr<Engine> engine;
  std::function<Status()> validate;
};
template <typename EngineType>
CheckedEngine checked_engine(std::unique_ptr<EngineType> engine) {
  EngineType* validated = engine.get();
  return {std::move(engine), [validated] { return validated->validate(); }};
}
using EngineFactory = std::function<CheckedEngine(Device&)>;

// A machine, an engine on it, and the blocks that are allocated. The functions from `allocate` to
// `free_last` allocate no host memory themselves, so that all allocations that fail are the
// engine's or the device's.
class HostFaultWorld {
 public:
  static constexpr PoolId kPool{0, 1};

  // `max_mappings` is the device's limit on mappings; 0: the default.
  explicit HostFaultWorld(const EngineFactory& make, size_t max_mappings = 0);
  ~HostFaultWorld();
  HostFaultWorld(const HostFaultWorld&) = delete;
  HostFaultWorld& operator=(const HostFaultWorld&) = delete;

  sim::Machine& machine() { return *machine_; }
  Device& device() { return machine_->device(DeviceIndex{0}); }
  Engine& engine() { return *checked_.engine; }
  StreamId side() const { return side_; }

  Status allocate(size_t bytes, StreamId stream = kDefaultStream);
  Status use_last() { return engine().record_stream(live.back(), {&device(), side_}); }
  // Frees the newest block. If the device fails, the block is pending and no longer live.
  Status free_last();

  // Expects that an operation of the preparation succeeds.
  static void must(const Status& status);
  // Makes the side stream busy until `finish_side`.
  void keep_side_busy();
  void finish_side();

  // Describes what must not change if an operation fails: statistics, the free bytes of the device,
  // and the segments. Leaves out statistics that are 0, and the counts of retries, waits and
  // out-of-memory errors.
  std::vector<std::string> state();
  void expect_valid();
  // Frees all blocks and releases all pools, and expects that all memory can be returned.
  void expect_no_memory_lost();

  std::vector<Block*> live;   // has room for all blocks of a scenario
  std::vector<PoolId> pools;  // pools that expect_no_memory_lost releases; also has room

 private:
  std::unique_ptr<sim::Machine> machine_;
  StreamId side_;
  CheckedEngine checked_;
};

struct HostFaultScenario {
  std::string name;
  std::function<void(HostFaultWorld&)> prepare{};
  // Called again after a failure, and must then succeed.
  std::function<Status(HostFaultWorld&)> run{};
  // Whether a failed call may release cached memory, complete pending frees, or leave the block
  // that it was to free pending.
  bool may_change_caches = false;
  // Whether the operation must not throw, because it has no way to report that host memory is
  // exhausted.
  bool must_not_throw = false;
  size_t max_mappings = 0;  // of the device; 0: the default
};
std::ostream& operator<<(std::ostream& out, const HostFaultScenario& each);

// Returns the scenarios that apply to all engines.
std::vector<HostFaultScenario> common_host_fault_scenarios();

// Runs the scenario with the nth allocation failing for n = 1, 2, ... until no allocation fails.
void expect_safe_when_any_allocation_fails(const EngineFactory& make,
                                           const HostFaultScenario& scenario);

}  // namespace ashlar::sweep
