// SPDX-License-Identifier: Apache-2.0
//
// Tests several threads that use their own and shared streams, memory and events. These tests also
// run under ThreadSanitizer.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(ConcurrencyContract, ThreadsUseTheirOwnMemoryAndStreams) {
  on_threads([this](size_t thread) {
    constexpr size_t kBytes = 20'000;
    const StreamId stream = require_ok(device().create_stream());
    for (size_t round = 0; round < kRoundCount; ++round) {
      const Bytes wanted = pattern(kBytes, static_cast<uint8_t>(thread * 50 + round));
      Bytes found(kBytes);
      const DeviceAddress first = require_ok(device().allocate(kBytes));
      const DeviceAddress second = require_ok(device().allocate(kBytes));
      require_ok(device().copy_to_device(first, wanted.data(), kBytes, stream));
      require_ok(device().copy(second, first, kBytes, stream));
      require_ok(device().copy_to_host(found.data(), second, kBytes, stream));
      require_ok(device().synchronize_stream(stream));
      EXPECT_EQ(found, wanted);
      EXPECT_EQ(require_ok(device().describe(first + 1)).range.begin, first);
      require_ok(device().free(first));
      require_ok(device().free(second));
    }
    require_ok(device().destroy_stream(stream));
  });
}

TEST_P(ConcurrencyContract, SharedStreamRunsOneHostFunctionAtATime) {
  const StreamId stream = create_stream();
  // Not atomic on purpose: only the order of the stream protects the counter.
  size_t count = 0;
  on_threads([&](size_t) {
    for (size_t round = 0; round < kRoundCount * 5; ++round) {
      require_ok(device().call_host(stream, [&count] { ++count; }));
      if (round % 16 == 0) require_ok(device().synchronize_stream(stream));
    }
  });
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(count, kThreadCount * kRoundCount * 5);
}

TEST_P(ConcurrencyContract, SharedStreamPreservesTheOrderOfEachThread) {
  const StreamId stream = create_stream();
  std::vector<std::vector<size_t>> seen(kThreadCount);
  on_threads([&](size_t thread) {
    for (size_t round = 0; round < kRoundCount; ++round) {
      require_ok(
          device().call_host(stream, [&seen, thread, round] { seen[thread].push_back(round); }));
    }
  });
  require_ok(device().synchronize_stream(stream));
  for (const std::vector<size_t>& rounds : seen) {
    EXPECT_EQ(rounds.size(), kRoundCount);
    EXPECT_TRUE(std::is_sorted(rounds.begin(), rounds.end()));
  }
}

TEST_P(ConcurrencyContract, ThreadsMapAndUnmapInOneReservation) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(kThreadCount * 2 * granule);
  on_threads([&](size_t thread) {
    const StreamId stream = require_ok(device().create_stream());
    const DeviceAddress at = begin + thread * 2 * granule;
    for (size_t round = 0; round < kRoundCount; ++round) {
      const ExtentId first = require_ok(device().create(granule));
      const ExtentId second = require_ok(device().create(granule));
      require_ok(device().map(at, first));
      require_ok(device().map(at + granule, second));
      require_ok(device().set_access({at, 2 * granule}, properties().index, Access::kReadWrite));
      const uint8_t value = static_cast<uint8_t>(thread * 32 + round);
      Bytes found(512);
      require_ok(device().fill(at + (granule - 256), value, 512, stream));
      require_ok(device().copy_to_host(found.data(), at + (granule - 256), 512, stream));
      require_ok(device().synchronize_stream(stream));
      EXPECT_EQ(found, Bytes(512, value));
      require_ok(device().unmap({at, 2 * granule}));
      require_ok(device().release(first));
      require_ok(device().release(second));
    }
    require_ok(device().destroy_stream(stream));
  });
}

TEST_P(ConcurrencyContract, ThreadsReserveAndFreeAddresses) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  const size_t granule = granule_bytes();
  const MappedRange shared = map_range(granule);
  on_threads([&](size_t thread) {
    for (size_t round = 0; round < kRoundCount; ++round) {
      const AddressRange range{require_ok(device().reserve((thread + 1) * granule)),
                               (thread + 1) * granule};
      if (properties().can_alias) {
        require_ok(device().map(range.begin, shared.extent));
        require_ok(device().unmap({range.begin, granule}));
      }
      require_ok(device().free_addresses(range));
    }
  });
  EXPECT_TRUE(is_usable(shared.range.begin));
}

TEST_P(ConcurrencyContract, ThreadsGetMemoryOrOutOfMemoryWhenDeviceFills) {
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
  for (size_t i = 0; i < kThreadCount; ++i) events.push_back(create_event());
  on_threads([&](size_t thread) {
    const StreamId stream = require_ok(device().create_stream());
    for (size_t round = 0; round < kRoundCount; ++round) {
      require_ok(device().call_host(stream, [] {}));
      require_ok(device().record_event(events[thread], stream));
      require_ok(device().wait_event(stream, events[(thread + 1) % kThreadCount]));
      require_ok(device().record_event(events[(thread + round) % kThreadCount], stream));
      EXPECT_TRUE(ok(device().is_done(events[(thread + 2) % kThreadCount])));
      if (round % 8 == 0) require_ok(device().synchronize_event(events[thread]));
    }
    require_ok(device().synchronize_stream(stream));
    require_ok(device().destroy_stream(stream));
  });
  require_ok(device().synchronize_device());
  for (const EventId event : events) EXPECT_TRUE(require_ok(device().is_done(event)));
}

TEST_P(ConcurrencyContract, EventsOrderWorkAcrossThreadsStreamsAndDevices) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  // Not atomic on purpose: only device-side waits order the accesses.
  size_t count = 0;
  std::mutex mutex;
  EventId last = create_event();
  on_threads([&](size_t thread) {
    Device& on = thread % 2 == 0 ? device() : other();
    const StreamId stream = require_ok(on.create_stream());
    for (size_t round = 0; round < kRoundCount; ++round) {
      const std::lock_guard lock(mutex);
      require_ok(on.wait_event(stream, last));
      require_ok(on.call_host(stream, [&count] { ++count; }));
      last = create_event(on);
      require_ok(on.record_event(last, stream));
    }
    require_ok(on.destroy_stream(stream));
  });
  const StreamId end = create_stream();
  require_ok(device().wait_event(end, last));
  require_ok(device().synchronize_stream(end));
  EXPECT_EQ(count, kThreadCount * kRoundCount);
}

TEST_P(ConcurrencyContract, ThreadsCreateStreamsDuringDeviceSynchronization) {
  std::atomic<size_t> runs = 0;
  on_threads([&](size_t thread) {
    for (size_t round = 0; round < kRoundCount; ++round) {
      if (thread == 0) {
        require_ok(device().synchronize_device());
        require_ok(device().memory_stats());
        continue;
      }
      const StreamId stream = require_ok(device().create_stream());
      const EventId event = require_ok(device().create_event());
      require_ok(device().call_host(stream, [&runs] { ++runs; }));
      require_ok(device().record_event(event, stream));
      require_ok(device().wait_event(stream, event));
      require_ok(device().destroy_event(event));
      require_ok(device().destroy_stream(stream));
    }
  });
  require_ok(device().synchronize_device());
  EXPECT_TRUE(eventually([&] { return runs == (kThreadCount - 1) * kRoundCount; }));
}

TEST_P(ConcurrencyContract, LastErrorIsPerThread) {
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
  if (!properties().has_stream_ordered_pool) {
    GTEST_SKIP() << "the device has no stream-ordered pool";
  }
  on_threads([this](size_t thread) {
    const StreamId stream = require_ok(device().create_stream());
    for (size_t round = 0; round < kRoundCount; ++round) {
      const size_t bytes = 4096 + thread * 1024;
      const uint8_t value = static_cast<uint8_t>(thread * 32 + round);
      Bytes found(bytes);
      const DeviceAddress address = require_ok(device().allocate_async(bytes, stream));
      require_ok(device().fill(address, value, bytes, stream));
      require_ok(device().copy_to_host(found.data(), address, bytes, stream));
      require_ok(device().free_async(address, stream));
      require_ok(device().synchronize_stream(stream));
      EXPECT_EQ(found, Bytes(bytes, value));
      EXPECT_TRUE(ok(device().driver_pool_stats()));
    }
    require_ok(device().destroy_stream(stream));
  });
  EXPECT_EQ(require_ok(device().driver_pool_stats()).used_bytes, 0U);
}

TEST_P(ConcurrencyContract, ThreadsCaptureConcurrently) {
  if (!properties().has_capture) GTEST_SKIP() << "the device cannot capture";
  std::vector<DeviceAddress> addresses;
  for (size_t i = 0; i < kThreadCount; ++i) addresses.push_back(allocate(4096));
  on_threads([&](size_t thread) {
    const StreamId stream = require_ok(device().create_stream());
    Bytes found(4096);
    for (size_t round = 0; round < kRoundCount; ++round) {
      const uint8_t value = static_cast<uint8_t>(thread * 32 + round);
      require_ok(device().begin_capture(stream, CaptureMode::kThreadLocal));
      require_ok(device().fill(addresses[thread], value, 4096, stream));
      const GraphId graph = require_ok(device().end_capture(stream));
      require_ok(device().launch_graph(graph, stream));
      require_ok(device().destroy_graph(graph));
      require_ok(device().copy_to_host(found.data(), addresses[thread], 4096, stream));
      require_ok(device().synchronize_stream(stream));
      EXPECT_EQ(found, Bytes(4096, value));
    }
    require_ok(device().destroy_stream(stream));
  });
}

TEST_P(ConcurrencyContract, ThreadsPinHostMemory) {
  on_threads([this](size_t thread) {
    for (size_t round = 0; round < kRoundCount; ++round) {
      uint8_t* memory = static_cast<uint8_t*>(require_ok(device().allocate_host(8192)));
      std::fill_n(memory, 8192, static_cast<uint8_t>(thread));
      const DeviceAddress address(reinterpret_cast<uintptr_t>(memory));
      EXPECT_EQ(require_ok(device().describe(address)).kind, MemoryKind::kHost);
      EXPECT_EQ(memory[8191], thread);
      require_ok(device().free_host(memory));
    }
  });
}

}  // namespace ashlar::contract
