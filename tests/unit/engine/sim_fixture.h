// SPDX-License-Identifier: Apache-2.0
//
// A fixture with a simulated machine, streams that stay busy until `finish`, and counts of
// device calls. Device memory has no contents unless a test sets another backing. The machine has a
// fixed seed, so that a call that would wait for a paused stream fails instead of hanging.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "contract/plain_device.h"
#include "unit/device/sim/machine_fixture.h"

namespace ashlar {

class SimFixture : public ::testing::Test {
 protected:
  static constexpr DeviceIndex kDevice{0};

  SimFixture() {
    machine_options_.capacity_bytes = kGiB;
    machine_options_.backing = sim::Backing::kBookkeeping;
    machine_options_.seed = 1;
  }
  void make_machine() { machine_ = sim::make_machine(machine_options_); }

  Device& device() { return plain_ != nullptr ? *plain_ : machine_->device(kDevice); }
  size_t used_bytes() {
    const DeviceMemoryStats use = *device().memory_stats();
    return use.total_bytes - use.free_bytes;
  }

  StreamId new_stream() { return *device().create_stream(); }
  // Returns a stream with queued work that does not start before `finish`.
  StreamId busy_stream() {
    const StreamId stream = new_stream();
    keep_busy(device(), stream);
    return stream;
  }
  void keep_busy(StreamId stream) { keep_busy(device(), stream); }
  void keep_busy(Device& on, StreamId stream) {
    must(machine_->pause_stream(on.properties().index, stream));
    work(on, stream);
  }
  static void work(Device& on, StreamId stream) {
    must(on.call_host(stream, [] {}));
  }
  void finish(StreamId stream) { finish(device(), stream); }
  void finish(Device& on, StreamId stream) {
    must(machine_->resume_stream(on.properties().index, stream));
    must(on.synchronize_stream(stream));
  }

  // Returns the number of successful calls since the last reset_call_counts().
  uint64_t calls(DeviceCall call) const {
    return machine_->costs(kDevice).count_of(call) - counts_at_reset_.count_of(call);
  }
  uint64_t all_calls() const {
    const auto sum = [](const sim::CallCosts& costs) {
      return std::accumulate(costs.count.begin(), costs.count.end(), uint64_t{0});
    };
    return sum(machine_->costs(kDevice)) - sum(counts_at_reset_);
  }
  void reset_call_counts() { counts_at_reset_ = machine_->costs(kDevice); }

  static void must(const Status& status) { EXPECT_TRUE(status.ok()) << status.to_string(); }
  static void expect_kind(const Status& status, StatusKind kind) {
    EXPECT_EQ(status.kind(), kind) << status.to_string();
  }

  sim::Options machine_options_;  // set before the machine is created
  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<contract::PlainDevice> plain_;  // if set, replaces the machine's device
  sim::CallCosts counts_at_reset_;
};

}  // namespace ashlar
