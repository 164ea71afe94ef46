// SPDX-License-Identifier: Apache-2.0
//
// The contract suite of `Engine`: the fixture, and one test suite per group of behaviours (see the
// engine_*_contract.cc files). To test another engine, add one file that creates it and
// instantiates the suites; `classic_engines.cc` is an example.
//
// The suites hold for every engine: they do not assume addresses, how far a block exceeds its
// request, or how much memory an engine reserves. They run on simulated devices, on vendors' back
// ends over stand-in drivers, and on a real CUDA device (`engine_machine.h`). Simulated devices
// have real memory. Streams run unless a test pauses them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ashlar/checkpoint.h"
#include "ashlar/options.h"
#include "ashlar/sim.h"
#include "base/units.h"
#include "device_contract.h"
#include "engine/engine.h"
#include "engine_machine.h"
#include "run_on_threads.h"

namespace ashlar::contract {

struct EngineUnderTest {
  std::string name;  // part of the test names; letters and digits only
  // Creates the engine with the given options, adjusted to the variant that this struct describes.
  std::function<std::unique_ptr<Engine>(Device&, AllocatorOptions)> make;
  bool has_virtual_memory = true;  // whether the engine's device has virtual memory
  std::function<std::unique_ptr<EngineMachine>(size_t capacity_bytes)> machine = simulated_machine;
  bool caches = true;               // whether the engine keeps freed memory for reuse
  bool reports_free_errors = true;  // whether it frees memory itself and reports device errors
  // Whether the engine reports all reserved memory to trackers. False for engines on a driver's
  // pool.
  bool reports_all_reserved = true;
};

void PrintTo(const EngineUnderTest& engine, std::ostream* out);

// Returns the same engine on a device without virtual memory.
EngineUnderTest on_plain_device(EngineUnderTest engine);
std::string engine_name(const testing::TestParamInfo<EngineUnderTest>& engine);

// At the end of every test, destroys the engine with all remaining blocks, and expects that all
// memory of the engine's device is then free, unless the device stays lost.
class EngineContract : public testing::TestWithParam<EngineUnderTest> {
 protected:
  static constexpr size_t kCapacityBytes = 256 * kMiB;
  // The alignment that all drivers guarantee and vectorized kernels require.
  static constexpr size_t kAlignmentBytes = 256;
  static constexpr DeviceIndex kDevice{0};
  static constexpr DeviceIndex kOther{1};

  void SetUp() override;
  void TearDown() override;
  // Replaces the engine. REQUIRES: nothing has been allocated yet.
  void restart_with(const AllocatorOptions& options);

  Engine& engine() { return *engine_; }
  Device& device() { return *device_; }
  Device& other() { return machine_->device(kOther); }
  size_t used_bytes();

  // --- memory

  // Allocates a block, and checks that it is large enough, aligned, and disjoint from all blocks in
  // use.
  Block* allocate(size_t bytes, StreamId stream = kDefaultStream);
  // Makes an allocation that must fail. Returns its error.
  Status allocation_error(size_t bytes, StreamId stream = kDefaultStream);
  void free(Block* block);
  // Frees a block that other streams still use. No new block may overlap it until `mark_finished`.
  AddressRange free_while_used(Block* block);
  void mark_finished(AddressRange range) { in_use_.erase(range.begin); }
  void record_stream(Block* block, StreamId stream) {
    require_ok(engine().record_stream(block, {&device(), stream}));
  }
  void free_all();
  // Allocates blocks of the given size until the engine is out of memory.
  std::vector<Block*> allocate_until_full(size_t bytes, StreamId stream = kDefaultStream);
  void expect_disjoint(AddressRange range) const;

  // --- work

  StreamId create_stream();
  // Fills all requested bytes of the block.
  void fill(const Block* block, uint8_t value) { fill(block, value, block->stream); }
  void fill(const Block* block, uint8_t value, StreamId stream) {
    require_ok(device().fill(block->address, value, block->requested_bytes, stream));
  }
  // Returns whether all requested bytes equal `value`. Reads them in `stream` or, if not given, in
  // the block's own stream. REQUIRES: that stream is not paused.
  testing::AssertionResult contains(const Block* block, uint8_t value) {
    return contains(block, value, block->stream);
  }
  testing::AssertionResult contains(const Block* block, uint8_t value, StreamId stream);
  // These functions pause or resume the stream. resume_stream also waits for the stream's work.
  void pause_stream(StreamId stream) { pause_stream(stream, kDevice); }
  void pause_stream(StreamId stream, DeviceIndex on);
  void resume_stream(StreamId stream) { resume_stream(stream, kDevice); }
  void resume_stream(StreamId stream, DeviceIndex on);
  // Returns a new paused stream with queued work.
  StreamId busy_stream();
  // Makes later work on `then` wait for the work queued on `first`.
  void order_streams(StreamId first, StreamId then);

  // --- pools

  void route_to(PoolId pool);
  void route_to(PoolId pool, StreamId only);
  void end_routing(PoolId pool) { require_ok(engine().end_routing(pool)); }
  bool pool_exists(PoolId pool) { return engine().pool_use_count(pool).ok(); }
  // Restores the checkpoint and updates the fixture's list of live blocks.
  RestoreResult restore(const PoolCheckpoint& checkpoint);
  // Returns the pool that the engine reported for the block.
  PoolId pool_of(const Block* block) const { return pools_.at(block->address); }

  AllocatorStats stats() { return engine().stats(); }
  int64_t active_count() { return stats().active.all.current; }
  // Frees all blocks, trims, and expects that no memory is left. Ignores errors from earlier frees.
  void expect_trims_to_zero();

  bool stays_lost() const { return machine_->stays_lost(); }

  std::unique_ptr<EngineMachine> machine_;

 private:
  std::unique_ptr<Device> plain_device_;
  Device* device_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::map<DeviceAddress, Block*> live_;
  std::map<DeviceAddress, size_t> in_use_;
  std::map<DeviceAddress, PoolId> pools_;
  std::set<std::pair<DeviceIndex, StreamId>> paused_;
  std::vector<StreamId> spare_streams_;  // created before any stream was paused
};

// --- one suite per group of behaviours

class EngineMemoryContract : public EngineContract {};
class EngineTrimContract : public EngineContract {
 protected:
  size_t trim_to(size_t reserved_bytes, TrimWait wait = TrimWait::kNever) {
    return require_ok(engine().trim_to({reserved_bytes, wait, {}}));
  }
  size_t reserved_bytes() { return static_cast<size_t>(stats().reserved_bytes.all.current); }
  // Returns the number of host synchronizations so far.
  uint64_t host_wait_count();
  // Leaves `count` free blocks in the cache.
  void fill_cache(size_t bytes, int count, StreamId stream = kDefaultStream);
};
class EngineStreamsContract : public EngineContract {};
class EnginePoolsContract : public EngineContract {};
// Instantiated only for engines with checkpoints.
class EngineCheckpointContract : public EngineContract {
 protected:
  static constexpr PoolId kPool{1, 0};
  void SetUp() override;  // routes all allocations to the pool
  PoolCheckpoint take_checkpoint() { return require_ok(engine().checkpoint(kPool)); }
  // These functions expect that the call fails with a message that contains `why`, and frees or
  // allocates nothing.
  void expect_no_checkpoint(const std::string& why);
  void expect_no_restore(const PoolCheckpoint& checkpoint, const std::string& why);
};
class EngineCaptureContract : public EngineContract {
 protected:
  static constexpr PoolId kPool{1, 0};
  void SetUp() override;  // skips without capture
  void TearDown() override;
  // Routes allocations on the stream to the pool, and captures its work.
  void begin_capture(StreamId stream);
  GraphId end_capture();
  bool is_capturing(StreamId stream) {
    return require_ok(device().capture_state(stream)).status == CaptureStatus::kActive;
  }
  void launch(GraphId graph, StreamId stream);

 private:
  std::optional<StreamId> captured_;
};
class EngineLimitsContract : public EngineContract {};
class EngineHooksContract : public EngineContract {};
class EngineFailuresContract : public EngineContract {};
class EngineConcurrencyContract : public EngineContract {
 protected:
  static constexpr size_t kThreadCount = 8;
  static void on_threads(const std::function<void(size_t)>& function) {
    run_on_threads(kThreadCount, function);
  }
};

}  // namespace ashlar::contract
