// SPDX-License-Identifier: Apache-2.0
//
// Tests deterministic scheduling with a seed.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "machine_fixture.h"

namespace ashlar::sim {
namespace {

struct Outcome {
  std::vector<int> order;      // the order of the kernels
  std::vector<uint32_t> sums;  // final memory contents
  double elapsed_ms = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Four streams on two devices update shared cells, with an event between two of the streams. The
// final contents of the cells depend on the order of the updates.
Outcome run_workload(uint64_t seed) {
  Options options = small_options();
  options.seed = seed;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Outcome run;
  Device& first = machine->device(kFirst);
  const DeviceAddress cells = *first.allocate(4096);
  EXPECT_TRUE(machine->device(kSecond).enable_peer_access(kFirst).ok());

  struct Lane {
    DeviceIndex device;
    StreamId stream;
  };
  std::vector<Lane> lanes;
  for (DeviceIndex device : {kFirst, kFirst, kSecond, kSecond}) {
    lanes.push_back({device, *machine->device(device).create_stream()});
  }
  const EventId begin = *first.create_event({.timing = true});
  const EventId end = *first.create_event({.timing = true});
  EXPECT_TRUE(first.record_event(begin, lanes[0].stream).ok());
  for (int step = 0; step < 8; ++step) {
    for (int lane = 0; lane < 4; ++lane) {
      const int id = step * 4 + lane;
      auto kernel = [&run, cells, id](const DeviceMemory& memory) -> Status {
        Result<std::span<uint32_t>> cell = memory.try_view<uint32_t>(cells, 4);
        if (!cell.ok()) return cell.status();
        (*cell)[id % 3] = (*cell)[id % 3] * 31 + static_cast<uint32_t>(id);
        run.order.push_back(id);
        return {};
      };
      EXPECT_TRUE(machine->try_launch(lanes[lane].device, lanes[lane].stream, kernel).ok());
    }
    if (step == 3) {
      EXPECT_TRUE(first.record_event(end, lanes[0].stream).ok());
      EXPECT_TRUE(machine->device(kSecond).wait_event(lanes[3].stream, end).ok());
    }
  }
  EXPECT_TRUE(first.synchronize_device().ok());
  EXPECT_TRUE(machine->device(kSecond).synchronize_device().ok());
  run.sums.resize(4);
  EXPECT_TRUE(first.copy_to_host(run.sums.data(), cells, 16, kDefaultStream).ok());
  EXPECT_TRUE(first.synchronize_stream(kDefaultStream).ok());
  run.elapsed_ms = *first.elapsed_ms(begin, end);
  return run;
}

TEST(SeededMachineTest, SameSeedGivesTheSameRunAThousandTimes) {
  const Outcome expected = run_workload(42);
  ASSERT_EQ(expected.order.size(), 32u);
  EXPECT_GT(expected.elapsed_ms, 0);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(run_workload(42), expected) << "in run " << i;
}

TEST(SeededMachineTest, DifferentSeedsGiveDifferentInterleavings) {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) orders.insert(run_workload(seed).order);
  EXPECT_GE(orders.size(), 19u);
}

TEST(SeededMachineTest, EveryInterleavingRespectsStreamsAndEvents) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Outcome run = run_workload(seed);
    std::vector<int> position(32);
    for (int i = 0; i < 32; ++i) position[run.order[i]] = i;
    for (int id = 4; id < 32; ++id) ASSERT_LT(position[id - 4], position[id]) << "seed " << seed;
    // Lane 3 waits for step 3 of lane 0 before its own step 4.
    ASSERT_LT(position[3 * 4 + 0], position[4 * 4 + 3]) << "seed " << seed;
  }
}

TEST(SeededMachineTest, WaitingForAPausedStreamIsAnError) {
  Options options = small_options();
  options.seed = 1;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const StreamId stream = *device.create_stream();
  bool ran = false;
  ASSERT_TRUE(machine->pause_stream(kFirst, stream).ok());
  ASSERT_TRUE(device.call_host(stream, [&] { ran = true; }).ok());
  const Status waited = device.synchronize_stream(stream);
  EXPECT_EQ(waited.kind(), StatusKind::kDeviceFault);
  EXPECT_NE(waited.message().find("paused"), std::string::npos) << waited.to_string();
  EXPECT_FALSE(ran);
  ASSERT_TRUE(machine->resume_stream(kFirst, stream).ok());
  EXPECT_TRUE(device.synchronize_stream(stream).ok());
  EXPECT_TRUE(ran);
}

TEST(SeededMachineTest, PollingAnEventMakesProgress) {
  Options options = small_options();
  options.seed = 3;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const StreamId stream = *device.create_stream();
  const EventId event = *device.create_event();
  ASSERT_TRUE(machine->pause_stream(kFirst, stream).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(device.call_host(stream, [] {}).ok());
  ASSERT_TRUE(device.record_event(event, stream).ok());
  EXPECT_FALSE(*device.is_done(event));
  ASSERT_TRUE(machine->resume_stream(kFirst, stream).ok());
  int polls = 0;
  while (!*device.is_done(event)) ASSERT_LT(++polls, 1000);
}

TEST(SeededMachineTest, StepRunsOnePieceOfWork) {
  Options options = small_options();
  options.seed = 4;
  const std::unique_ptr<Machine> machine = make_machine(options);
  EXPECT_FALSE(machine->step());
  int ran = 0;
  const StreamId stream = *machine->device(kFirst).create_stream();
  ASSERT_TRUE(machine->pause_stream(kFirst, stream).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(machine
                    ->try_launch(kFirst, stream,
                                 [&](const DeviceMemory&) {
                                   ++ran;
                                   return Status();
                                 })
                    .ok());
  }
  EXPECT_FALSE(machine->step());
  ASSERT_TRUE(machine->resume_stream(kFirst, stream).ok());
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(machine->step());
    EXPECT_EQ(ran, i);
  }
  EXPECT_FALSE(machine->step());
}

TEST(SeededMachineTest, WaitResumesStreamsPausedUntilWaited) {
  Options options = small_options();
  options.seed = 3;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const StreamId stream = *device.create_stream();
  ASSERT_TRUE(machine->pause_stream_until_waited(kFirst, stream).ok());
  ASSERT_TRUE(device.call_host(stream, [] {}).ok());
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(*device.is_idle(stream)) << "a query must not wait";
  EXPECT_TRUE(device.synchronize_stream(stream).ok());
  EXPECT_TRUE(*device.is_idle(stream));
}

}  // namespace
}  // namespace ashlar::sim
