// SPDX-License-Identifier: Apache-2.0
//
// The suite that every `Engine` must pass: its fixture, and one test suite per group of behaviours
// (see the engine_*_contract.cc files). An engine joins by one file that makes it and instantiates
// the suites; `classic_engines.cc` shows how.
//
// Nothing here knows an engine: how large blocks are beyond what was asked for, where they lie, and
// how much is reserved for them is theirs to decide. The devices are simulated ones, with memory
// that holds bytes and streams that run by themselves unless they are held, or a vendor's back end
// over such ones (`engine_machine.h`).
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
#include "on_threads.h"

namespace ashlar::contract {

struct EngineUnderTest {
  std::string name;  // letters and digits; becomes part of the tests' names
  // With these options, but for those that make the engine the one it is.
  std::function<std::unique_ptr<Engine>(Device&, AllocatorOptions)> make;
  bool has_virtual_memory = true;  // of the device that it runs on
  std::function<std::unique_ptr<EngineMachine>(size_t capacity_bytes)> machine = simulated_machine;
  bool caches = true;        // what is freed stays with the engine, to be used again
  bool frees_itself = true;  // the device's frees are the engine's, which hears them fail
  bool tells_all = true;     // what is reserved, it has told of; else a driver keeps more
};

void PrintTo(const EngineUnderTest& engine, std::ostream* out);
std::string engine_name(const testing::TestParamInfo<EngineUnderTest>& engine);

// Whatever a test leaves allocated goes with the engine, and then the device has all its memory
// back: every test ends with that.
class EngineContract : public testing::TestWithParam<EngineUnderTest> {
 protected:
  static constexpr size_t kCapacityBytes = 256 * kMiB;
  // What every driver promises, and vectorized kernels rely on.
  static constexpr size_t kAlignmentBytes = 256;
  static constexpr DeviceIndex kDevice{0};
  static constexpr DeviceIndex kOther{1};

  void SetUp() override;
  void TearDown() override;
  // Another engine instead. REQUIRES: nothing was allocated yet.
  void restart_with(const AllocatorOptions& options);

  Engine& engine() { return *engine_; }
  Device& device() { return *device_; }
  Device& other() { return machine_->device(kOther); }
  size_t used_bytes();

  // --- memory -----------------------------------------------------------------------------------

  // Checked on the way: large enough, aligned, and apart from every block that is in use.
  Block* allocate(size_t bytes, StreamId stream = kDefaultStream);
  // How an allocation fails that must fail.
  Status refused(size_t bytes, StreamId stream = kDefaultStream);
  void free(Block* block);
  // Other streams still use it: until `is_over`, no new block may lie there.
  AddressRange free_in_use(Block* block);
  void is_over(AddressRange range) { in_use_.erase(range.begin); }
  void use_on(Block* block, StreamId stream) {
    must(engine().record_stream(block, {&device(), stream}));
  }
  void free_all();
  // As much as there is, in blocks of that size.
  std::vector<Block*> fill_up(size_t bytes, StreamId stream = kDefaultStream);
  void expect_apart(AddressRange range) const;

  // --- work -------------------------------------------------------------------------------------

  StreamId new_stream();
  // A value in all the bytes that were asked for.
  void fill(const Block* block, uint8_t value) { fill(block, value, block->stream); }
  void fill(const Block* block, uint8_t value, StreamId stream) {
    must(device().fill(block->address, value, block->requested_bytes, stream));
  }
  // REQUIRES: the stream runs.
  testing::AssertionResult holds(const Block* block, uint8_t value) {
    return holds(block, value, block->stream);
  }
  testing::AssertionResult holds(const Block* block, uint8_t value, StreamId stream);
  // The stream starts nothing more until it is let go on; that also waits for it.
  void hold(StreamId stream) { hold(stream, kDevice); }
  void hold(StreamId stream, DeviceIndex on);
  void let_go_on(StreamId stream) { let_go_on(stream, kDevice); }
  void let_go_on(StreamId stream, DeviceIndex on);
  // A stream with a piece of work that does not start until it is let go on.
  StreamId busy_stream();
  // What `first` has done so far comes before what `then` does next.
  void order(StreamId first, StreamId then);

  // --- pools ------------------------------------------------------------------------------------

  void route(PoolId pool);
  void route(PoolId pool, StreamId only);
  void end_route(PoolId pool) { must(engine().end_routing(pool)); }
  bool exists(PoolId pool) { return engine().pool_use_count(pool).ok(); }
  // The test's blocks of that pool are those of the checkpoint now.
  RestoreResult restore(const PoolCheckpoint& checkpoint);
  // Where the engine says the block came from.
  PoolId pool_of(const Block* block) const { return pools_.at(block->address); }

  AllocatorStats stats() { return engine().stats(); }
  int64_t active_count() { return stats().active.all.current; }
  // Failures of a free that nobody heard of are told now.
  void expect_empties();

  bool stays_lost() const { return machine_->stays_lost(); }

  std::unique_ptr<EngineMachine> machine_;

 private:
  std::unique_ptr<Device> plain_;
  Device* device_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::map<DeviceAddress, Block*> live_;
  std::map<DeviceAddress, size_t> in_use_;
  std::map<DeviceAddress, PoolId> pools_;
  std::set<std::pair<DeviceIndex, StreamId>> held_;
  std::vector<StreamId> spare_streams_;  // from before any was held
};

// --- one suite per group of behaviours ----------------------------------------------------------

class EngineMemoryContract : public EngineContract {};
class EngineTrimContract : public EngineContract {
 protected:
  size_t trim_to(size_t reserved_bytes, TrimWait wait = TrimWait::kNever) {
    return must(engine().trim_to({reserved_bytes, wait, {}}));
  }
  size_t reserved_bytes() { return static_cast<size_t>(stats().reserved_bytes.all.current); }
  // How often the host waited for the device.
  uint64_t waits();
  // Leaves so many free blocks of one size in the cache.
  void cache(size_t bytes, int count, StreamId stream = kDefaultStream);
};
class EngineStreamsContract : public EngineContract {};
class EnginePoolsContract : public EngineContract {};
// Of the engines that have checkpoints.
class EngineCheckpointContract : public EngineContract {
 protected:
  static constexpr PoolId kPool{1, 0};
  void SetUp() override;  // everything is allocated from the pool
  PoolCheckpoint take() { return must(engine().checkpoint(kPool)); }
  // How both fail that must fail, and leave everything as it was.
  void expect_no_checkpoint(const std::string& why);
  void expect_no_restore(const PoolCheckpoint& checkpoint, const std::string& why);
};
class EngineCaptureContract : public EngineContract {
 protected:
  static constexpr PoolId kPool{1, 0};
  void SetUp() override;  // skips where there is no capture
  void TearDown() override;
  // What is allocated on the stream comes from the pool, and its work goes into a graph.
  void begin_capture(StreamId stream);
  GraphId end_capture();
  bool is_capturing(StreamId stream) {
    return must(device().capture_state(stream)).status == CaptureStatus::kActive;
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
  static void on_threads(const std::function<void(size_t)>& act) {
    run_on_threads(kThreadCount, act);
  }
};

}  // namespace ashlar::contract
