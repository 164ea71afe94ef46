// SPDX-License-Identifier: Apache-2.0
//
// Any function from any thread at any time: several threads on their own things and on shared
// ones. Meant to be run under TSan too, which sees what these tests cannot.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(ConcurrencyContract, ThreadsWorkOnTheirOwnMemoryAndStreams) {
  on_threads([this](size_t thread) {
    constexpr size_t kBytes = 20'000;
    const StreamId stream = must(device().create_stream());
    for (size_t round = 0; round < kRoundCount; ++round) {
      const Bytes wanted = pattern(kBytes, static_cast<uint8_t>(thread * 50 + round));
      Bytes found(kBytes);
      const DeviceAddress first = must(device().allocate(kBytes));
      const DeviceAddress second = must(device().allocate(kBytes));
      must(device().copy_to_device(first, wanted.data(), kBytes, stream));
      must(device().copy(second, first, kBytes, stream));
      must(device().copy_to_host(found.data(), second, kBytes, stream));
      must(device().synchronize_stream(stream));
      EXPECT_EQ(found, wanted);
      EXPECT_EQ(must(device().describe(first + 1)).range.begin, first);
      must(device().free(first));
      must(device().free(second));
    }
    must(device().destroy_stream(stream));
  });
}

TEST_P(ConcurrencyContract, WorkOfManyThreadsInOneStreamRunsOnePieceAtATime) {
  const StreamId stream = new_stream();
  // Not atomic on purpose: the stream's order is the only thing that keeps it right.
  size_t count = 0;
  on_threads([&](size_t) {
    for (size_t round = 0; round < kRoundCount * 5; ++round) {
      must(device().call_host(stream, [&count] { ++count; }));
      if (round % 16 == 0) must(device().synchronize_stream(stream));
    }
  });
  must(device().synchronize_stream(stream));
  EXPECT_EQ(count, kThreadCount * kRoundCount * 5);
}

TEST_P(ConcurrencyContract, EachThreadsWorkKeepsItsOrderInASharedStream) {
  const StreamId stream = new_stream();
  std::vector<std::vector<size_t>> seen(kThreadCount);
  on_threads([&](size_t thread) {
    for (size_t round = 0; round < kRoundCount; ++round) {
      must(device().call_host(stream, [&seen, thread, round] { seen[thread].push_back(round); }));
    }
  });
  must(device().synchronize_stream(stream));
  for (const std::vector<size_t>& rounds : seen) {
    EXPECT_EQ(rounds.size(), kRoundCount);
    EXPECT_TRUE(std::is_sorted(rounds.begin(), rounds.end()));
  }
}

TEST_P(ConcurrencyContract, ThreadsMapAndUnmapInOneReservation) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(kThreadCount * 2 * granule);
  on_threads([&](size_t thread) {
    const StreamId stream = must(device().create_stream());
    const DeviceAddress at = begin + thread * 2 * granule;
    for (size_t round = 0; round < kRoundCount; ++round) {
      const ExtentId first = must(device().create(granule));
      const ExtentId second = must(device().create(granule));
      must(device().map(at, first));
      must(device().map(at + granule, second));
      must(device().set_access({at, 2 * granule}, properties().index, Access::kReadWrite));
      const uint8_t value = static_cast<uint8_t>(thread * 32 + round);
      Bytes found(512);
      must(device().fill(at + (granule - 256), value, 512, stream));
      must(device().copy_to_host(found.data(), at + (granule - 256), 512, stream));
      must(device().synchronize_stream(stream));
      EXPECT_EQ(found, Bytes(512, value));
      must(device().unmap({at, 2 * granule}));
      must(device().release(first));
      must(device().release(second));
    }
    must(device().destroy_stream(stream));
  });
}

TEST_P(ConcurrencyContract, ThreadsReserveAndFreeAddresses) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  const size_t granule = granule_bytes();
  const MappedRange shared = mapped_range(granule);
  on_threads([&](size_t thread) {
    for (size_t round = 0; round < kRoundCount; ++round) {
      const AddressRange range{must(device().reserve((thread + 1) * granule)),
                               (thread + 1) * granule};
      if (properties().can_alias) {
        must(device().map(range.begin, shared.extent));
        must(device().unmap({range.begin, granule}));
      }
      must(device().free_addresses(range));
    }
  });
  EXPECT_TRUE(holds_bytes(shared.range.begin));
}

TEST_P(ConcurrencyContract, ThreadsThatFillTheDeviceGetMemoryOrOutOfMemoryAndNothingElse) {
  const size_t step = properties().capacity_bytes / 16;
  std::mutex mutex;
  std::vector<DeviceAddress> taken;
  on_threads([&](size_t) {
    for (int i = 0; i < 8; ++i) {
      const Result<DeviceAddress> memory = device().allocate(step);
      if (!memory.ok()) {
        EXPECT_EQ(memory.status().kind(), StatusKind::kOutOfMemory);
        EXPECT_EQ(device().take_last_error().kind(), StatusKind::kOutOfMemory);
        continue;
      }
      const std::lock_guard lock(mutex);
      taken.push_back(*memory);
    }
  });
  EXPECT_FALSE(taken.empty());
  EXPECT_LE(taken.size(), 16U);
  for (const DeviceAddress address : taken) EXPECT_TRUE(ok(device().free(address)));
}

TEST_P(ConcurrencyContract, ThreadsRecordAndWaitForSharedEvents) {
  std::vector<EventId> events;
  for (size_t i = 0; i < kThreadCount; ++i) events.push_back(new_event());
  on_threads([&](size_t thread) {
    const StreamId stream = must(device().create_stream());
    for (size_t round = 0; round < kRoundCount; ++round) {
      must(device().call_host(stream, [] {}));
      must(device().record_event(events[thread], stream));
      must(device().wait_event(stream, events[(thread + 1) % kThreadCount]));
      must(device().record_event(events[(thread + round) % kThreadCount], stream));
      EXPECT_TRUE(ok(device().is_done(events[(thread + 2) % kThreadCount])));
      if (round % 8 == 0) must(device().synchronize_event(events[thread]));
    }
    must(device().synchronize_stream(stream));
    must(device().destroy_stream(stream));
  });
  must(device().synchronize_device());
  for (const EventId event : events) EXPECT_TRUE(must(device().is_done(event)));
}

TEST_P(ConcurrencyContract, AChainOfEventsAcrossThreadsStreamsAndDevicesKeepsItsOrder) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  // Handed round by device-side waits alone, so not atomic.
  size_t count = 0;
  std::mutex mutex;
  EventId last = new_event();
  on_threads([&](size_t thread) {
    Device& on = thread % 2 == 0 ? device() : other();
    const StreamId stream = must(on.create_stream());
    for (size_t round = 0; round < kRoundCount; ++round) {
      const std::lock_guard lock(mutex);
      must(on.wait_event(stream, last));
      must(on.call_host(stream, [&count] { ++count; }));
      last = new_event(on);
      must(on.record_event(last, stream));
    }
    must(on.destroy_stream(stream));
  });
  const StreamId end = new_stream();
  must(device().wait_event(end, last));
  must(device().synchronize_stream(end));
  EXPECT_EQ(count, kThreadCount * kRoundCount);
}

TEST_P(ConcurrencyContract, StreamsComeAndGoWhileOthersWaitForTheDevice) {
  std::atomic<size_t> runs = 0;
  on_threads([&](size_t thread) {
    for (size_t round = 0; round < kRoundCount; ++round) {
      if (thread == 0) {
        must(device().synchronize_device());
        must(device().memory_stats());
        continue;
      }
      const StreamId stream = must(device().create_stream());
      const EventId event = must(device().create_event());
      must(device().call_host(stream, [&runs] { ++runs; }));
      must(device().record_event(event, stream));
      must(device().wait_event(stream, event));
      must(device().destroy_event(event));
      must(device().destroy_stream(stream));
    }
  });
  must(device().synchronize_device());
  EXPECT_TRUE(eventually([&] { return runs == (kThreadCount - 1) * kRoundCount; }));
}

TEST_P(ConcurrencyContract, EachThreadSeesItsOwnLastError) {
  on_threads([this](size_t thread) {
    for (size_t round = 0; round < kRoundCount; ++round) {
      const size_t bytes = thread % 2 == 0 ? 0 : properties().capacity_bytes * 2;
      const Result<DeviceAddress> refused = device().allocate(bytes);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(device().last_error().to_string(), refused.status().to_string());
      EXPECT_EQ(device().take_last_error().kind(), refused.status().kind());
    }
  });
}

TEST_P(ConcurrencyContract, ThreadsShareTheStreamOrderedPool) {
  if (!properties().has_stream_pool) GTEST_SKIP() << "the device has no stream-ordered pool";
  on_threads([this](size_t thread) {
    const StreamId stream = must(device().create_stream());
    for (size_t round = 0; round < kRoundCount; ++round) {
      const size_t bytes = 4096 + thread * 1024;
      const uint8_t value = static_cast<uint8_t>(thread * 32 + round);
      Bytes found(bytes);
      const DeviceAddress address = must(device().allocate_async(bytes, stream));
      must(device().fill(address, value, bytes, stream));
      must(device().copy_to_host(found.data(), address, bytes, stream));
      must(device().free_async(address, stream));
      must(device().synchronize_stream(stream));
      EXPECT_EQ(found, Bytes(bytes, value));
      EXPECT_TRUE(ok(device().driver_pool_stats()));
    }
    must(device().destroy_stream(stream));
  });
  EXPECT_EQ(must(device().driver_pool_stats()).used_bytes, 0U);
}

TEST_P(ConcurrencyContract, ThreadsCaptureAtOnceWithoutDisturbingEachOther) {
  if (!properties().has_capture) GTEST_SKIP() << "the device cannot capture";
  std::vector<DeviceAddress> addresses;
  for (size_t i = 0; i < kThreadCount; ++i) addresses.push_back(allocated(4096));
  on_threads([&](size_t thread) {
    const StreamId stream = must(device().create_stream());
    Bytes found(4096);
    for (size_t round = 0; round < kRoundCount; ++round) {
      const uint8_t value = static_cast<uint8_t>(thread * 32 + round);
      must(device().begin_capture(stream, CaptureMode::kThreadLocal));
      must(device().fill(addresses[thread], value, 4096, stream));
      const GraphId graph = must(device().end_capture(stream));
      must(device().launch_graph(graph, stream));
      must(device().destroy_graph(graph));
      must(device().copy_to_host(found.data(), addresses[thread], 4096, stream));
      must(device().synchronize_stream(stream));
      EXPECT_EQ(found, Bytes(4096, value));
    }
    must(device().destroy_stream(stream));
  });
}

TEST_P(ConcurrencyContract, ThreadsPinHostMemory) {
  on_threads([this](size_t thread) {
    for (size_t round = 0; round < kRoundCount; ++round) {
      uint8_t* memory = static_cast<uint8_t*>(must(device().allocate_host(8192)));
      std::fill_n(memory, 8192, static_cast<uint8_t>(thread));
      const DeviceAddress address(reinterpret_cast<uintptr_t>(memory));
      EXPECT_EQ(must(device().describe(address)).kind, MemoryKind::kHost);
      EXPECT_EQ(memory[8191], thread);
      must(device().free_host(memory));
    }
  });
}

}  // namespace ashlar::contract
