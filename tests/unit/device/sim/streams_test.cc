// SPDX-License-Identifier: Apache-2.0
//
// Tests streams with worker threads: pausing, destruction, and machines destroyed with queued work.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "contract/waiting.h"
#include "device/sim/sim_device.h"
#include "machine_fixture.h"

namespace ashlar::sim {
namespace {

size_t thread_count() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t count = 0;
    if (word == "Threads:" && status >> count) return count;
  }
  return 0;
}

TEST(SimStreamsTest, StreamStartsItsThreadWithItsFirstWork) {
  const size_t before = thread_count();
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  std::vector<StreamId> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(*device.create_stream());
  const EventId event = *device.create_event();
  for (StreamId stream : streams) ASSERT_TRUE(device.record_event(event, stream).ok());
  EXPECT_EQ(thread_count(), before);
}

TEST(SimStreamsTest, PausedStreamDoesNotBlockOthers) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const StreamId held = *device.create_stream();
  const StreamId other = *device.create_stream();
  std::atomic<int> ran{0};
  ASSERT_TRUE(machine->pause_stream(kFirst, held).ok());
  ASSERT_TRUE(device.call_host(held, [&] { ++ran; }).ok());
  ASSERT_TRUE(device.call_host(other, [&] { ran += 10; }).ok());
  ASSERT_TRUE(device.synchronize_stream(other).ok());
  EXPECT_EQ(ran, 10);
  EXPECT_FALSE(*device.is_idle(held));
  ASSERT_TRUE(machine->resume_stream(kFirst, held).ok());
  ASSERT_TRUE(device.synchronize_stream(held).ok());
  EXPECT_EQ(ran, 11);
}

TEST(SimStreamsTest, WaitingForAStreamDoesNotKeepItBusy) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const StreamId stream = *device.create_stream();
  const EventId first = *device.create_event();
  const EventId later = *device.create_event();
  ASSERT_TRUE(machine->pause_stream(kFirst, stream).ok());
  ASSERT_TRUE(device.call_host(stream, [] {}).ok());
  ASSERT_TRUE(device.record_event(first, stream).ok());
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(device.record_event(later, stream).ok());
  ASSERT_TRUE(machine->resume_stream(kFirst, stream).ok());
  ASSERT_TRUE(device.synchronize_event(first).ok());
  EXPECT_TRUE(*device.is_idle(stream));
  EXPECT_TRUE(*device.is_done(later));
}

TEST(SimStreamsTest, DestroyedStreamsFinishAndReleaseTheirThreads) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const size_t before = thread_count();
  std::atomic<int> ran{0};
  for (int i = 0; i < 200; ++i) {
    const StreamId stream = *device.create_stream();
    ASSERT_TRUE(device.call_host(stream, [&] { ++ran; }).ok());
    ASSERT_TRUE(device.destroy_stream(stream).ok());
  }
  ASSERT_TRUE(device.synchronize_device().ok());
  EXPECT_EQ(ran, 200) << "synchronize_device waits for destroyed streams too";
  ASSERT_TRUE(device.destroy_stream(*device.create_stream()).ok());
  EXPECT_LE(thread_count(), before + 2);
}

TEST(SimStreamsTest, MachineIsDestroyedWithQueuedAndPausedWork) {
  std::atomic<int> ran{0};
  {
    const std::unique_ptr<Machine> machine = make_machine(small_options());
    Device& device = machine->device(kFirst);
    const StreamId held = *device.create_stream();
    const StreamId waiting = *device.create_stream();
    const EventId event = *device.create_event();
    ASSERT_TRUE(machine->pause_stream(kFirst, held).ok());
    ASSERT_TRUE(device.call_host(held, [&] { ++ran; }).ok());
    ASSERT_TRUE(device.record_event(event, held).ok());
    ASSERT_TRUE(device.wait_event(waiting, event).ok());
    ASSERT_TRUE(device.call_host(waiting, [&] { ++ran; }).ok());
  }
  EXPECT_EQ(ran, 0);
}

// Eight threads use one shared stream and one private stream each. An event makes each private
// stream wait for the shared stream.
TEST(SimStreamsConcurrencyTest, ManyThreadsQueueRecordWaitAndMap) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const StreamId shared = *device.create_stream();
  const DeviceAddress counter = *device.allocate(64);
  ASSERT_TRUE(device.fill(counter, 0, 64, shared).ok());
  const auto increment = [counter](const DeviceMemory& memory) -> Status {
    Result<std::span<uint64_t>> cell = memory.try_view<uint64_t>(counter, 1);
    if (!cell.ok()) return cell.status();
    ++(*cell)[0];
    return {};
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const StreamId own = *device.create_stream();
      const EventId event = *device.create_event();
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(machine->try_launch(kFirst, shared, increment).ok());
        EXPECT_TRUE(device.record_event(event, shared).ok());
        EXPECT_TRUE(device.wait_event(own, event).ok());
        const MappedRange mapped = map_extents(device, 2);
        EXPECT_TRUE(device.fill(mapped.range.begin, 7, 4096, own).ok());
        EXPECT_TRUE(device.synchronize_stream(own).ok());
        EXPECT_TRUE(device.unmap(mapped.range).ok());
        for (ExtentId extent : mapped.extents) EXPECT_TRUE(device.release(extent).ok());
        EXPECT_TRUE(device.free_addresses(mapped.range).ok());
      }
      EXPECT_TRUE(device.destroy_event(event).ok());
      EXPECT_TRUE(device.destroy_stream(own).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(device.synchronize_device().ok());
  EXPECT_EQ((*machine->memory(kFirst).try_view<uint64_t>(counter, 1))[0], 800u);
  ASSERT_TRUE(device.free(counter).ok());
  EXPECT_EQ(device.memory_stats()->free_bytes, kGiB);
}

TEST(SimStreamsTest, GraphRetainsObjectsOfGraphThatItContains) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  auto& device = dynamic_cast<SimDevice&>(machine->device(kFirst));
  const StreamId stream = *device.create_stream({});
  auto object = std::make_shared<const int>(1);
  const std::weak_ptr<const int> retained = object;
  ASSERT_TRUE(device.begin_capture(stream, CaptureMode::kGlobal).ok());
  ASSERT_TRUE(device.retain_in_graph(stream, std::move(object)).ok());
  const GraphId inner = *device.end_capture(stream);
  ASSERT_TRUE(device.begin_capture(stream, CaptureMode::kGlobal).ok());
  ASSERT_TRUE(device.launch_graph(inner, stream).ok());
  const GraphId outer = *device.end_capture(stream);
  ASSERT_TRUE(device.destroy_graph(inner).ok());
  EXPECT_FALSE(retained.expired());
  ASSERT_TRUE(device.destroy_graph(outer).ok());
  EXPECT_TRUE(contract::eventually([&] { return retained.expired(); }));
}

}  // namespace
}  // namespace ashlar::sim
