// SPDX-License-Identifier: Apache-2.0
//
// The fixture of the engine contract.
#include "engine_contract.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plain_device.h"

namespace ashlar::contract {

void PrintTo(const EngineUnderTest& engine, std::ostream* out) { *out << engine.name; }

EngineUnderTest on_plain_device(EngineUnderTest engine) {
  engine.name += "OnPlainDevice";
  engine.has_virtual_memory = false;
  return engine;
}

std::string engine_name(const testing::TestParamInfo<EngineUnderTest>& engine) {
  return engine.param.name;
}

// --- setup and teardown

void EngineContract::SetUp() {
  machine_ = GetParam().machine(kCapacityBytes);
  device_ = &machine_->device(kDevice);
  if (!GetParam().has_virtual_memory) {
    plain_device_ = std::make_unique<PlainDevice>(*device_);
    device_ = plain_device_.get();
  }
  restart_with({});
}

void EngineContract::restart_with(const AllocatorOptions& options) {
  engine_ = GetParam().make(*device_, options);
  engine_->add_tracker([this](const TraceEntry& entry) {
    if (entry.action == TraceAction::kAlloc) pools_[entry.address] = entry.pool;
  });
}

void EngineContract::TearDown() {
  if (machine_ == nullptr) return;
  machine_->clear_faults();
  machine_->revive(kDevice);
  for (const auto& [index, stream] : std::exchange(paused_, {})) {
    require_ok(machine_->resume_stream(index, stream));
  }
  engine_.reset();
  if (machine_->is_lost(kDevice)) return;
  EXPECT_EQ(used_bytes(), 0U) << "the engine leaked memory";
}

size_t EngineContract::used_bytes() {
  const DeviceMemoryStats use = require_ok(machine_->device(kDevice).memory_stats());
  return use.total_bytes - use.free_bytes;
}

// --- memory

Block* EngineContract::allocate(size_t bytes, StreamId stream) {
  Block* block = engine().allocate_fast(bytes, stream);  // as Allocator does
  if (block == nullptr) block = require_ok(engine().allocate({bytes, stream}));
  EXPECT_FALSE(block->address.is_null());
  EXPECT_EQ(block->address.value() % kAlignmentBytes, 0U);
  EXPECT_GE(block->bytes, bytes);
  EXPECT_EQ(block->requested_bytes, bytes);
  EXPECT_EQ(block->stream, stream);
  expect_disjoint({block->address, block->bytes});
  live_[block->address] = block;
  return block;
}

void EngineContract::expect_disjoint(AddressRange range) const {
  const auto check = [&](AddressRange taken, const char* why) {
    const bool apart = range.end() <= taken.begin || taken.end() <= range.begin;
    EXPECT_TRUE(apart) << "the block at " << range.begin.value() << " lies where " << why;
  };
  for (const auto& [address, block] : live_) check({address, block->bytes}, "a live block is");
  for (const auto& [address, bytes] : in_use_) check({address, bytes}, "another stream is at work");
}

Status EngineContract::allocation_error(size_t bytes, StreamId stream) {
  const Result<Block*> block = engine().allocate({bytes, stream});
  EXPECT_FALSE(block.ok()) << "an allocation that should fail succeeded";
  EXPECT_FALSE(block.status().message().empty()) << "the failure has no message";
  return block.status();
}

void EngineContract::free(Block* block) {
  live_.erase(block->address);
  require_ok(engine().free(block));
}

AddressRange EngineContract::free_while_used(Block* block) {
  const AddressRange range{block->address, block->bytes};
  free(block);
  in_use_[range.begin] = range.bytes;
  return range;
}

void EngineContract::free_all() {
  while (!live_.empty()) free(live_.begin()->second);
}

std::vector<Block*> EngineContract::allocate_until_full(size_t bytes, StreamId stream) {
  std::vector<Block*> blocks;
  while (true) {
    const Result<Block*> block = engine().allocate({bytes, stream});
    if (!block.ok()) {
      EXPECT_EQ(block.status().kind(), StatusKind::kOutOfMemory) << block.status().to_string();
      return blocks;
    }
    expect_disjoint({(*block)->address, (*block)->bytes});
    live_[(*block)->address] = *block;
    blocks.push_back(*block);
  }
}

void EngineContract::expect_trims_to_zero() {
  free_all();
  (void)engine().trim().ok();  // may report an earlier failure
  EXPECT_TRUE(ok(engine().trim()));
  EXPECT_EQ(stats().allocation.all.current, 0);
  EXPECT_EQ(active_count(), 0);
  EXPECT_EQ(stats().reserved_bytes.all.current, 0);
  EXPECT_EQ(used_bytes(), 0U);
}

// --- work

testing::AssertionResult EngineContract::contains(const Block* block, uint8_t value,
                                                  StreamId stream) {
  // Reads in steps, because touching new host memory of the block's size would take longer than the
  // copy.
  Bytes found(std::min(block->requested_bytes, kMiB));
  for (size_t offset = 0; offset < block->requested_bytes; offset += found.size()) {
    found.resize(std::min(found.size(), block->requested_bytes - offset));
    require_ok(device().copy_to_host(found.data(), block->address + offset, found.size(), stream));
    require_ok(device().synchronize_stream(stream));
    // Comparing the bytes with themselves, shifted by one, is fast without optimization, too.
    if (found[0] == value && std::memcmp(found.data(), found.data() + 1, found.size() - 1) == 0) {
      continue;
    }
    const auto wrong =
        std::find_if(found.begin(), found.end(), [&](uint8_t byte) { return byte != value; });
    return testing::AssertionFailure()
           << "byte " << offset + static_cast<size_t>(wrong - found.begin()) << " of "
           << block->requested_bytes << " is " << int{*wrong} << " instead of " << int{value};
  }
  return testing::AssertionSuccess();
}

StreamId EngineContract::create_stream() {
  if (spare_streams_.empty()) return require_ok(device().create_stream());
  const StreamId stream = spare_streams_.back();
  spare_streams_.pop_back();
  return stream;
}

// Creates spare streams first, because a driver may wait for all streams when it creates one.
void EngineContract::pause_stream(StreamId stream, DeviceIndex on) {
  constexpr size_t kSpareCount = 4;
  while (paused_.empty() && spare_streams_.size() < kSpareCount) {
    spare_streams_.push_back(require_ok(device().create_stream()));
  }
  require_ok(machine_->pause_stream(on, stream));
  paused_.insert({on, stream});
}

void EngineContract::resume_stream(StreamId stream, DeviceIndex on) {
  require_ok(machine_->resume_stream(on, stream));
  paused_.erase({on, stream});
  require_ok(machine_->device(on).synchronize_stream(stream));
}

StreamId EngineContract::busy_stream() {
  const StreamId stream = create_stream();
  pause_stream(stream);
  require_ok(device().call_host(stream, [] {}));
  return stream;
}

void EngineContract::order_streams(StreamId first, StreamId then) {
  const EventId event = require_ok(device().create_event());
  require_ok(device().record_event(event, first));
  require_ok(device().wait_event(then, event));
  require_ok(device().destroy_event(event));
}

// --- pools and captures

void EngineContract::route_to(PoolId pool) {
  require_ok(engine().begin_routing(pool, [](StreamId) { return true; }));
}

void EngineContract::route_to(PoolId pool, StreamId only) {
  require_ok(engine().begin_routing(pool, [only](StreamId stream) { return stream == only; }));
}

RestoreResult EngineContract::restore(const PoolCheckpoint& checkpoint) {
  RestoreResult change = require_ok(engine().restore(checkpoint));
  for (const DeviceAddress address : change.freed) {
    EXPECT_EQ(live_.erase(address), 1U) << "nothing was allocated at " << address.value();
  }
  for (Block* block : change.allocated) {
    EXPECT_TRUE(block->is_allocated());
    expect_disjoint({block->address, block->bytes});
    live_[block->address] = block;
  }
  return change;
}

void EngineCheckpointContract::SetUp() {
  EngineContract::SetUp();
  route_to(kPool);
}

void EngineCheckpointContract::expect_no_checkpoint(const std::string& why) {
  const int64_t before = stats().allocated_bytes.all.current;
  const Status refused = engine().checkpoint(kPool).status();
  EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument) << refused.to_string();
  EXPECT_NE(refused.message().find(why), std::string::npos) << refused.to_string();
  EXPECT_EQ(stats().allocated_bytes.all.current, before);
}

void EngineCheckpointContract::expect_no_restore(const PoolCheckpoint& checkpoint,
                                                 const std::string& why) {
  const int64_t before = stats().allocated_bytes.all.current;
  const Status refused = engine().restore(checkpoint).status();
  EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument) << refused.to_string();
  EXPECT_NE(refused.message().find(why), std::string::npos) << refused.to_string();
  EXPECT_EQ(stats().allocated_bytes.all.current, before);
}

void EngineCaptureContract::SetUp() {
  EngineContract::SetUp();
  if (!device().properties().has_capture) GTEST_SKIP() << "the device cannot capture";
}

void EngineCaptureContract::TearDown() {
  if (captured_) (void)device().end_capture(*captured_).ok();
  EngineContract::TearDown();
}

void EngineCaptureContract::begin_capture(StreamId stream) {
  route_to(kPool, stream);
  engine().capture_began();
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  captured_ = stream;
}

GraphId EngineCaptureContract::end_capture() {
  const GraphId graph = require_ok(device().end_capture(*std::exchange(captured_, std::nullopt)));
  require_ok(engine().capture_ended());
  end_routing(kPool);
  return graph;
}

void EngineCaptureContract::launch(GraphId graph, StreamId stream) {
  require_ok(device().launch_graph(graph, stream));
  require_ok(device().synchronize_stream(stream));
}

}  // namespace ashlar::contract
