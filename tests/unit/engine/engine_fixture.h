// SPDX-License-Identifier: Apache-2.0
//
// A fixture with an engine on a simulated device. classic_fixture.h and paged/paged_fixture.h add
// the parts that are specific to those engines.
#pragma once

#include <memory>
#include <utility>

#include "unit/engine/sim_fixture.h"

namespace ashlar {

// Destroys the engine after each test and checks that the device has all of its memory back.
template <typename EngineUnderTest>
class EngineFixture : public SimFixture {
 protected:
  // Creates the machine and the engine, or recreates both.
  void start(const AllocatorOptions& options = {}, size_t capacity_bytes = kGiB) {
    engine_.reset();
    machine_options_.capacity_bytes = capacity_bytes;
    make_machine();
    make_engine(options);
  }
  void make_engine(const AllocatorOptions& options) {
    counts_at_reset_ = {};
    engine_ = std::make_unique<EngineUnderTest>(device(), options);
  }
  void TearDown() override {
    if (engine_ == nullptr) return;
    machine_->clear_faults();
    expect_valid();
    engine_.reset();
    EXPECT_EQ(used_bytes(), 0U) << "the engine kept memory of the device";
    counts_at_reset_ = {};
    EXPECT_EQ(calls(DeviceCall::kReserve), calls(DeviceCall::kFreeAddresses));
    EXPECT_EQ(calls(DeviceCall::kAllocateHost), calls(DeviceCall::kFreeHost));
  }
  void expect_valid() {
    const Status valid = engine_->validate();
    EXPECT_TRUE(valid.ok()) << valid.to_string();
  }

  // --- memory

  Block* allocate(size_t bytes, StreamId stream = kDefaultStream) {
    Result<Block*> block = engine_->allocate({bytes, stream});
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    return block.ok() ? *block : nullptr;
  }
  // Makes an allocation that must fail. Returns its error.
  Status allocation_error(size_t bytes, StreamId stream = kDefaultStream) {
    const Result<Block*> block = engine_->allocate({bytes, stream});
    EXPECT_FALSE(block.ok()) << "an allocation that should fail succeeded";
    return block.status();
  }
  void use_on(Block* block, StreamId stream) {
    must(engine_->record_stream(block, {&device(), stream}));
  }
  void free(Block* block) { must(engine_->free(block)); }
  void trim(PoolId pool = {}) { must(engine_->trim(pool)); }

  // --- pools

  void make_pool(PoolId pool, PoolOptions options) {
    must(engine_->create_pool(pool, std::move(options)));
  }
  void route(PoolId pool) {
    must(engine_->begin_routing(pool, [](StreamId) { return true; }));
  }
  void route(PoolId pool, StreamId only) {
    must(engine_->begin_routing(pool, [only](StreamId stream) { return stream == only; }));
  }
  void end_route(PoolId pool) { must(engine_->end_routing(pool)); }

  AllocatorStats stats() const { return engine_->stats(); }

  std::unique_ptr<EngineUnderTest> engine_;
};

}  // namespace ashlar
