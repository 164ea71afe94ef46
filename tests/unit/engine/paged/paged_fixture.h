// A paged engine on a simulated device, in a test's words: allocate, use_on, finish, free. The
// machine keeps books only and follows a seed, so that the same test sees the same order each time.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "ashlar/sim.h"
#include "base/units.h"
#include "contract/plain_device.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {

class PagedFixture : public ::testing::Test {
 protected:
  // Makes the machine and the engine; once per test, before anything else.
  void start(const AllocatorOptions& options = {}, bool on_plain_device = false) {
    sim::Options machine_options;
    machine_options.device_count = 1;
    machine_options.capacity_bytes = kGiB;
    machine_options.backing = sim::Backing::kBookkeeping;
    machine_options.seed = 1;
    machine_ = *sim::Machine::create(machine_options);
    if (on_plain_device) {
      plain_ = std::make_unique<contract::PlainDevice>(machine_->device(DeviceIndex(0)));
    }
    engine_ = std::make_unique<PagedEngine>(device(), options);
  }

  void TearDown() override {
    if (engine_ == nullptr) return;
    const Status valid = engine_->validate();
    EXPECT_TRUE(valid.ok()) << valid.to_string();
    engine_.reset();
    EXPECT_EQ(used_bytes(), 0U) << "the engine kept memory of the device";
  }

  Device& device() { return plain_ != nullptr ? *plain_ : machine_->device(DeviceIndex(0)); }
  size_t used_bytes() {
    const MemoryUse use = *device().memory_use();
    return use.total_bytes - use.free_bytes;
  }

  Block* allocate(size_t bytes, StreamId stream = kDefaultStream) {
    Result<Block*> block = engine_->allocate({bytes, stream});
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    return block.ok() ? *block : nullptr;
  }
  void free(Block* block) { must(engine_->free(block)); }
  void use_on(Block* block, StreamId stream) {
    must(engine_->record_stream(block, {&device(), stream}));
  }
  // So many blocks of one size, of which every other one is freed again.
  std::vector<Block*> leave_holes(size_t bytes, size_t count, StreamId stream = kDefaultStream) {
    std::vector<Block*> left;
    std::vector<Block*> freed;
    for (size_t i = 0; i < count; ++i) {
      (i % 2 == 0 ? freed : left).push_back(allocate(bytes, stream));
    }
    for (Block* block : freed) free(block);
    return left;
  }

  StreamId new_stream() { return *device().create_stream(); }
  // A stream with a piece of work that does not start until `finish`.
  StreamId busy_stream() {
    const StreamId stream = new_stream();
    keep_busy(stream);
    return stream;
  }
  void keep_busy(StreamId stream) {
    must(machine_->hold(DeviceIndex(0), stream));
    must(device().call_host(stream, [] {}));
  }
  void finish(StreamId stream) {
    must(machine_->resume(DeviceIndex(0), stream));
    must(device().synchronize_stream(stream));
  }

  AllocatorStats stats() const { return engine_->stats(); }
  uint64_t calls(DeviceCall call) const { return machine_->costs(DeviceIndex(0)).count_of(call); }
  uint64_t all_calls() const {
    const sim::CallCosts costs = machine_->costs(DeviceIndex(0));
    return std::accumulate(costs.count.begin(), costs.count.end(), uint64_t{0});
  }
  void forget_calls() { machine_->reset_costs(DeviceIndex(0)); }

  static void must(const Status& status) { EXPECT_TRUE(status.ok()) << status.to_string(); }

  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<contract::PlainDevice> plain_;
  std::unique_ptr<PagedEngine> engine_;
};

}  // namespace ashlar::paged
