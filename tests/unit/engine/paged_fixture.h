// A paged engine on a simulated device whose memory holds bytes, in a test's words. The machine
// follows a seed: a call that waits for a held stream fails instead of waiting for ever.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "ashlar/sim.h"
#include "base/units.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {

class PagedFixture : public ::testing::Test {
 protected:
  static constexpr DeviceIndex kDevice{0};
  static constexpr PoolId kPool{0, 1};

  void SetUp() override { start(); }
  void start(const AllocatorOptions& options = {}, size_t capacity_bytes = 512 * kMiB) {
    engine_.reset();
    sim::Options machine_options;
    machine_options.device_count = 2;
    machine_options.capacity_bytes = capacity_bytes;
    machine_options.seed = 1;
    Result<std::unique_ptr<sim::Machine>> machine = sim::Machine::create(machine_options);
    ASSERT_TRUE(machine.ok()) << machine.status().to_string();
    machine_ = *std::move(machine);
    engine_ = std::make_unique<PagedEngine>(device(), options);
  }
  void TearDown() override {
    machine_->clear_faults();
    expect_valid();
    engine_.reset();
    EXPECT_EQ(used_bytes(), 0U) << "the engine kept memory of the device";
    EXPECT_EQ(calls(DeviceCall::kReserve), calls(DeviceCall::kFreeAddresses));
    EXPECT_EQ(calls(DeviceCall::kAllocateHost), calls(DeviceCall::kFreeHost));
  }
  void expect_valid() {
    const Status valid = engine_->validate();
    EXPECT_TRUE(valid.ok()) << valid.to_string();
  }

  Device& device() { return machine_->device(kDevice); }
  size_t used_bytes() {
    const MemoryUse use = *device().memory_use();
    return use.total_bytes - use.free_bytes;
  }
  size_t reserved_bytes() {
    return static_cast<size_t>(engine_->stats().reserved_bytes.all.current);
  }
  uint64_t calls(DeviceCall call) const { return machine_->costs(kDevice).count_of(call); }

  // --- memory and work
  Block* allocate(size_t bytes, StreamId stream = kDefaultStream) {
    Result<Block*> block = engine_->allocate({bytes, stream});
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    return block.ok() ? *block : nullptr;
  }
  void free(Block* block) { must(engine_->free(block)); }
  void fill(const Block* block, uint8_t value) {
    must(device().fill(block->address, value, block->requested_bytes, block->stream));
  }
  testing::AssertionResult holds(const Block* block, uint8_t value) {
    std::vector<uint8_t> bytes(block->requested_bytes);
    must(device().copy_to_host(bytes.data(), block->address, bytes.size(), block->stream));
    must(device().synchronize_stream(block->stream));
    const bool is_same = std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
    if (is_same && bytes[0] == value) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << "not all of its bytes are " << int(value) << ": the first is " << int(bytes[0]);
  }
  StreamId new_stream() { return *device().create_stream(); }
  StreamId busy_stream() {
    const StreamId stream = new_stream();
    must(machine_->hold(kDevice, stream));
    must(device().call_host(stream, [] {}));
    return stream;
  }
  void finish(StreamId stream) {
    must(machine_->resume(kDevice, stream));
    must(device().synchronize_stream(stream));
  }

  // --- pools
  void make_pool(PoolId pool, PoolOptions options) {
    must(engine_->create_pool(pool, std::move(options)));
  }
  void route(PoolId pool) {
    must(engine_->begin_routing(pool, [](StreamId) { return true; }));
  }
  void end_route(PoolId pool) { must(engine_->end_routing(pool)); }

  static void must(const Status& status) { EXPECT_TRUE(status.ok()) << status.to_string(); }
  static void expect_kind(const Status& status, StatusKind kind) {
    EXPECT_EQ(status.kind(), kind) << status.to_string();
  }

  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<PagedEngine> engine_;
};

}  // namespace ashlar::paged
