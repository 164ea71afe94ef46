// SPDX-License-Identifier: Apache-2.0
//
// The fixture of the engines' contract suite; see engine_contract.h.
#include "engine_contract.h"

#include <algorithm>
#include <utility>

#include "plain_device.h"

namespace ashlar::contract {

void PrintTo(const EngineUnderTest& engine, std::ostream* out) { *out << engine.name; }

std::string engine_name(const testing::TestParamInfo<EngineUnderTest>& engine) {
  return engine.param.name;
}

// --- the life of a test -------------------------------------------------------------------------

void EngineContract::SetUp() {
  machine_ = GetParam().machine(kCapacityBytes);
  device_ = &machine_->device(kDevice);
  if (!GetParam().has_virtual_memory) {
    plain_ = std::make_unique<PlainDevice>(*device_);
    device_ = plain_.get();
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
  for (const auto& [index, stream] : std::exchange(held_, {})) {
    must(machine_->resume(index, stream));
  }
  engine_.reset();
  if (machine_->is_lost(kDevice)) return;
  EXPECT_EQ(used_bytes(), 0U) << "the engine is gone and has left memory behind";
}

size_t EngineContract::used_bytes() {
  const MemoryStats use = must(machine_->device(kDevice).memory_stats());
  return use.total_bytes - use.free_bytes;
}

// --- memory -------------------------------------------------------------------------------------

Block* EngineContract::allocate(size_t bytes, StreamId stream) {
  Block* block = engine().allocate_fast(bytes, stream);  // as the facades do it
  if (block == nullptr) block = must(engine().allocate({bytes, stream}));
  EXPECT_FALSE(block->address.is_null());
  EXPECT_EQ(block->address.value() % kAlignmentBytes, 0U);
  EXPECT_GE(block->bytes, bytes);
  EXPECT_EQ(block->requested_bytes, bytes);
  EXPECT_EQ(block->stream, stream);
  expect_apart({block->address, block->bytes});
  live_[block->address] = block;
  return block;
}

void EngineContract::expect_apart(AddressRange range) const {
  const auto check = [&](AddressRange taken, const char* why) {
    const bool apart = range.end() <= taken.begin || taken.end() <= range.begin;
    EXPECT_TRUE(apart) << "the block at " << range.begin.value() << " lies where " << why;
  };
  for (const auto& [address, block] : live_) check({address, block->bytes}, "a live block is");
  for (const auto& [address, bytes] : in_use_) check({address, bytes}, "another stream is at work");
}

Status EngineContract::refused(size_t bytes, StreamId stream) {
  const Result<Block*> block = engine().allocate({bytes, stream});
  EXPECT_FALSE(block.ok()) << "an allocation that should fail succeeded";
  EXPECT_FALSE(block.status().message().empty()) << "a failure that says nothing";
  return block.status();
}

void EngineContract::free(Block* block) {
  live_.erase(block->address);
  must(engine().free(block));
}

AddressRange EngineContract::free_in_use(Block* block) {
  const AddressRange range{block->address, block->bytes};
  free(block);
  in_use_[range.begin] = range.bytes;
  return range;
}

void EngineContract::free_all() {
  while (!live_.empty()) free(live_.begin()->second);
}

std::vector<Block*> EngineContract::fill_up(size_t bytes, StreamId stream) {
  std::vector<Block*> blocks;
  while (true) {
    const Result<Block*> block = engine().allocate({bytes, stream});
    if (!block.ok()) {
      EXPECT_EQ(block.status().kind(), StatusKind::kOutOfMemory) << block.status().to_string();
      return blocks;
    }
    expect_apart({(*block)->address, (*block)->bytes});
    live_[(*block)->address] = *block;
    blocks.push_back(*block);
  }
}

void EngineContract::expect_empties() {
  free_all();
  (void)engine().trim().ok();  // may still tell what failed before
  EXPECT_TRUE(ok(engine().trim()));
  EXPECT_EQ(stats().allocation.all.current, 0);
  EXPECT_EQ(active_count(), 0);
  EXPECT_EQ(stats().reserved_bytes.all.current, 0);
  EXPECT_EQ(used_bytes(), 0U);
}

// --- work ---------------------------------------------------------------------------------------

testing::AssertionResult EngineContract::holds(const Block* block, uint8_t value, StreamId stream) {
  Bytes found(block->requested_bytes);
  must(device().copy_to_host(found.data(), block->address, found.size(), stream));
  must(device().synchronize_stream(stream));
  if (found == Bytes(found.size(), value)) return testing::AssertionSuccess();
  const auto wrong =
      std::find_if(found.begin(), found.end(), [&](uint8_t byte) { return byte != value; });
  return testing::AssertionFailure() << "byte " << wrong - found.begin() << " of " << found.size()
                                     << " is " << int{*wrong} << " instead of " << int{value};
}

StreamId EngineContract::new_stream() {
  if (spare_streams_.empty()) return must(device().create_stream());
  const StreamId stream = spare_streams_.back();
  spare_streams_.pop_back();
  return stream;
}

// What a test needs later is made now: to make a stream, a driver may wait for all others.
void EngineContract::hold(StreamId stream, DeviceIndex on) {
  constexpr size_t kSpareCount = 4;
  while (held_.empty() && spare_streams_.size() < kSpareCount) {
    spare_streams_.push_back(must(device().create_stream()));
  }
  must(machine_->hold(on, stream));
  held_.insert({on, stream});
}

void EngineContract::let_go_on(StreamId stream, DeviceIndex on) {
  must(machine_->resume(on, stream));
  held_.erase({on, stream});
  must(machine_->device(on).synchronize_stream(stream));
}

StreamId EngineContract::busy_stream() {
  const StreamId stream = new_stream();
  hold(stream);
  must(device().call_host(stream, [] {}));
  return stream;
}

void EngineContract::order(StreamId first, StreamId then) {
  const EventId event = must(device().create_event());
  must(device().record_event(event, first));
  must(device().wait_event(then, event));
  must(device().destroy_event(event));
}

// --- pools and captures -------------------------------------------------------------------------

void EngineContract::route(PoolId pool) {
  must(engine().begin_routing(pool, [](StreamId) { return true; }));
}

void EngineContract::route(PoolId pool, StreamId only) {
  must(engine().begin_routing(pool, [only](StreamId stream) { return stream == only; }));
}

RestoreResult EngineContract::restore(const PoolCheckpoint& checkpoint) {
  RestoreResult change = must(engine().restore(checkpoint));
  for (const DeviceAddress address : change.freed) {
    EXPECT_EQ(live_.erase(address), 1U) << "nothing was allocated at " << address.value();
  }
  for (Block* block : change.allocated) {
    EXPECT_TRUE(block->is_allocated());
    expect_apart({block->address, block->bytes});
    live_[block->address] = block;
  }
  return change;
}

void EngineCheckpointContract::SetUp() {
  EngineContract::SetUp();
  route(kPool);
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
  route(kPool, stream);
  engine().capture_began();
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  captured_ = stream;
}

GraphId EngineCaptureContract::end_capture() {
  const GraphId graph = must(device().end_capture(*std::exchange(captured_, std::nullopt)));
  must(engine().capture_ended());
  end_route(kPool);
  return graph;
}

void EngineCaptureContract::launch(GraphId graph, StreamId stream) {
  must(device().launch_graph(graph, stream));
  must(device().synchronize_stream(stream));
}

}  // namespace ashlar::contract
