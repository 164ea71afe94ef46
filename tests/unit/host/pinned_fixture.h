// SPDX-License-Identifier: Apache-2.0
//
// A fixture with a pinned allocator on a simulated device, and streams that stay busy until
// `finish`.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "device/relaxed_capture.h"
#include "host/pinned_allocator.h"
#include "unit/device/sim/machine_fixture.h"

namespace ashlar {

inline constexpr size_t kPinnedBytes = 64 * kKiB;

class PinnedTest : public ::testing::Test {
 protected:
  PinnedTest() {
    sim::Options machine_options = sim::small_options();
    machine_options.clock = &clock_;
    machine_ = sim::make_machine(machine_options);
  }
  ~PinnedTest() override {
    for (const auto& [at, stream] : busy_) EXPECT_TRUE(machine_->resume_stream(at, stream).ok());
  }

  Device& device() { return machine_->device(sim::kFirst); }
  Device& other_device() { return machine_->device(sim::kSecond); }

  // Returns the allocator under test, which is created on first use.
  PinnedAllocator& pinned() {
    if (allocator_ == nullptr) make();
    return *allocator_;
  }
  void make() {
    Result<std::unique_ptr<PinnedAllocator>> made =
        PinnedAllocator::create(device(), options_, clock_);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    allocator_ = *std::move(made);
  }

  PinnedBlock* allocate(size_t bytes) {
    Result<PinnedBlock*> block = pinned().allocate(bytes);
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    return block.ok() ? *block : nullptr;
  }
  void free(PinnedBlock* block) {
    const Status freed = pinned().free(block);
    EXPECT_TRUE(freed.ok()) << freed.to_string();
  }
  void use_on(PinnedBlock* block, StreamId stream) { use_on(block, {&device(), stream}); }
  void use_on(PinnedBlock* block, const DeviceStream& use) {
    const Result<bool> noted = pinned().record_stream(block, use);
    EXPECT_TRUE(noted.ok() && *noted) << noted.status().to_string();
  }
  void free_used_on(PinnedBlock* block, StreamId stream) {
    use_on(block, stream);
    free(block);
  }

  // Returns a stream with queued work that does not start before finish().
  StreamId busy_stream() { return busy_stream_of(sim::kFirst); }
  StreamId busy_stream_of(DeviceIndex at) {
    const StreamId stream = *machine_->device(at).create_stream();
    busy_.emplace_back(at, stream);
    EXPECT_TRUE(machine_->pause_stream(at, stream).ok());
    EXPECT_TRUE(machine_->device(at).call_host(stream, [] {}).ok());
    return stream;
  }
  void finish(StreamId stream) { finish_on(sim::kFirst, stream); }
  void finish_on(DeviceIndex at, StreamId stream) {
    const RelaxedCapture relaxed(machine_->device(at));
    EXPECT_TRUE(machine_->resume_stream(at, stream).ok());
    EXPECT_TRUE(machine_->device(at).synchronize_stream(stream).ok());
  }

  uint64_t call_count(DeviceCall call) { return machine_->costs(sim::kFirst).count_of(call); }
  void fail_next(DeviceCall call, Status status = {}) {
    machine_->inject({.call = call, .status = std::move(status)});
  }

  ManualClock clock_;
  std::unique_ptr<sim::Machine> machine_;
  AllocatorOptions options_;
  std::unique_ptr<PinnedAllocator> allocator_;

 private:
  // The paused streams. The fixture's destructor resumes them before the members are destroyed,
  // because the allocator's destructor waits for them.
  std::vector<std::pair<DeviceIndex, StreamId>> busy_;
};

}  // namespace ashlar
