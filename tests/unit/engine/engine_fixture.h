// A classic engine on a simulated device, in a test's words: allocate, use_on, finish, free. The
// machine keeps books only and follows a seed, so that the same test sees the same order each time.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ashlar/sim.h"
#include "base/units.h"
#include "engine/classic/classic_engine.h"

namespace ashlar::classic {

class EngineFixture : public ::testing::Test {
 protected:
  // Makes the machine and the engine; once per test, before anything else.
  void start(const AllocatorOptions& options = {}, size_t capacity_bytes = kGiB) {
    sim::Options machine_options;
    machine_options.device_count = 2;
    machine_options.capacity_bytes = capacity_bytes;
    machine_options.granularity_bytes = granularity_bytes_;
    machine_options.backing = sim::Backing::kBookkeeping;
    machine_options.seed = 1;
    Result<std::unique_ptr<sim::Machine>> machine = sim::Machine::create(machine_options);
    ASSERT_TRUE(machine.ok()) << machine.status().to_string();
    machine_ = *std::move(machine);
    engine_ = std::make_unique<ClassicEngine>(device(), options);
    engine_->add_tracker([this](const TraceEntry& entry) { trace_.push_back(entry); });
  }

  void TearDown() override {
    if (engine_ == nullptr) return;
    machine_->clear_faults();
    const Status valid = engine_->validate();
    EXPECT_TRUE(valid.ok()) << valid.to_string();
    engine_.reset();
    EXPECT_EQ(used_bytes(), 0U) << "the engine kept memory of the device";
  }

  Device& device() { return machine_->device(DeviceIndex(0)); }
  size_t used_bytes() {
    const MemoryUse use = *device().memory_use();
    return use.total_bytes - use.free_bytes;
  }

  // --- memory -----------------------------------------------------------------------------------

  Block* allocate(size_t bytes, StreamId stream = kDefaultStream) {
    Result<Block*> block = engine_->allocate({bytes, stream});
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    return block.ok() ? *block : nullptr;
  }
  // How an allocation fails that must fail.
  Status refused(size_t bytes, StreamId stream = kDefaultStream) {
    const Result<Block*> block = engine_->allocate({bytes, stream});
    EXPECT_FALSE(block.ok()) << "an allocation that should fail succeeded";
    return block.status();
  }
  void use_on(Block* block, StreamId stream) {
    must(engine_->record_stream(block, {&device(), stream}));
  }
  void free(Block* block) { must(engine_->free(block)); }
  void trim(PoolId pool = {}) { must(engine_->trim(pool)); }
  // Leaves a free block of so many bytes in the cache, in a segment of its own.
  DeviceAddress cache(size_t bytes, StreamId stream = kDefaultStream) {
    Block* block = allocate(bytes, stream);
    const DeviceAddress address = block->address;
    free(block);
    return address;
  }

  // --- streams ----------------------------------------------------------------------------------

  StreamId new_stream() { return *device().create_stream(); }
  // A stream with a piece of work that does not start until `finish`.
  StreamId busy_stream() {
    const StreamId stream = new_stream();
    keep_busy(device(), stream);
    return stream;
  }
  void keep_busy(Device& on, StreamId stream) {
    must(machine_->hold(on.properties().index, stream));
    must(on.call_host(stream, [] {}));
  }
  void finish(StreamId stream) { finish(device(), stream); }
  void finish(Device& on, StreamId stream) {
    must(machine_->resume(on.properties().index, stream));
    must(on.synchronize_stream(stream));
  }

  // --- pools ------------------------------------------------------------------------------------

  void route(PoolId pool) {
    must(engine_->begin_routing(pool, [](StreamId) { return true; }));
  }
  void route(PoolId pool, StreamId only) {
    must(engine_->begin_routing(pool, [only](StreamId stream) { return stream == only; }));
  }
  void end_route(PoolId pool) { must(engine_->end_routing(pool)); }

  // --- looking ----------------------------------------------------------------------------------

  AllocatorStats stats() const { return engine_->stats(); }
  uint64_t calls(DeviceCall call) const { return machine_->costs(DeviceIndex(0)).count_of(call); }
  // The acts since the last look that concern the device.
  std::vector<TraceAction> device_acts() {
    std::vector<TraceAction> acts;
    for (const TraceEntry& entry : std::exchange(trace_, {})) {
      const bool concerns_caller = entry.action == TraceAction::kAlloc ||
                                   entry.action == TraceAction::kFreeRequested ||
                                   entry.action == TraceAction::kFreeCompleted;
      if (!concerns_caller) acts.push_back(entry.action);
    }
    return acts;
  }

  // The next `count` calls of this kind fail, as if the device had no memory.
  void run_out(DeviceCall call, uint64_t count, uint64_t nth = 1) {
    machine_->inject(
        {.call = call, .nth = nth, .count = count, .status = Status::out_of_memory("injected")});
  }

  static void must(const Status& status) { EXPECT_TRUE(status.ok()) << status.to_string(); }

  size_t granularity_bytes_ = 2 * kMiB;  // of the machine; before `start`
  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<ClassicEngine> engine_;
  std::vector<TraceEntry> trace_;
};

}  // namespace ashlar::classic
