// SPDX-License-Identifier: Apache-2.0
//
// Trackers see all events in order and may call the engine.
#include <map>
#include <set>

#include "engine_contract.h"

namespace ashlar::contract {

using enum TraceAction;

namespace {

bool is_block_action(TraceAction action) {
  return action == kAlloc || action == kFreeRequested || action == kFreeCompleted;
}

}  // namespace

TEST_P(EngineHooksContract, TrackersSeeEveryBlockEventInOrder) {
  const StreamId stream = create_stream();
  const StreamId busy = busy_stream();
  std::vector<TraceEntry> entries;
  engine().add_tracker([&](const TraceEntry& entry) {
    if (is_block_action(entry.action)) entries.push_back(entry);
  });
  Block* plain = allocate(1000, stream);
  Block* used = allocate(3 * kMiB);
  const DeviceAddress plain_at = plain->address;
  const DeviceAddress used_at = used->address;
  record_stream(used, busy);
  free(plain);
  free(used);
  resume_stream(busy);
  require_ok(engine().trim());

  struct Expected {
    TraceAction action;
    DeviceAddress address;
    size_t bytes;
    StreamId stream;
  };
  const std::vector<Expected> expected = {{kAlloc, plain_at, 1000, stream},
                                          {kAlloc, used_at, 3 * kMiB, kDefaultStream},
                                          {kFreeRequested, plain_at, 1000, stream},
                                          {kFreeCompleted, plain_at, 1000, stream},
                                          {kFreeRequested, used_at, 3 * kMiB, kDefaultStream},
                                          {kFreeCompleted, used_at, 3 * kMiB, kDefaultStream}};
  ASSERT_EQ(entries.size(), expected.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(entries[i].action, expected[i].action);
    EXPECT_EQ(entries[i].address, expected[i].address);
    EXPECT_EQ(entries[i].bytes, expected[i].bytes);
    EXPECT_EQ(entries[i].stream, expected[i].stream);
    EXPECT_EQ(entries[i].device, kDevice);
  }
}

// The order of the entries for each address is: alloc, free requested, free completed, alloc.
TEST_P(EngineHooksContract, AddressIsNotReusedBeforeItsFreeCompletes) {
  std::map<DeviceAddress, TraceAction> last;
  int alloc_count = 0;
  engine().add_tracker([&](const TraceEntry& entry) {
    if (!is_block_action(entry.action)) return;
    const auto before = last.find(entry.address);
    const TraceAction previous = before == last.end() ? kFreeCompleted : before->second;
    const TraceAction expected = entry.action == kAlloc           ? kFreeCompleted
                                 : entry.action == kFreeRequested ? kAlloc
                                                                  : kFreeRequested;
    EXPECT_EQ(previous, expected) << "at " << entry.address.value();
    last[entry.address] = entry.action;
    alloc_count += entry.action == kAlloc ? 1 : 0;
  });
  const StreamId used = create_stream();
  for (int i = 0; i < 60; ++i) {
    Block* first = allocate((i % 5 + 1) * size_t{400'000});
    Block* second = allocate((i % 3 + 1) * size_t{300});
    if (i % 4 == 0) record_stream(first, used);
    free(first);
    free(second);
  }
  EXPECT_EQ(alloc_count, 120);
  expect_trims_to_zero();
  for (const auto& [address, action] : last) EXPECT_EQ(action, kFreeCompleted);
}

TEST_P(EngineHooksContract, TrackedSegmentsAddUpToReservedBytes) {
  int64_t reserved = 0;
  engine().add_tracker([&](const TraceEntry& entry) {
    const auto bytes = static_cast<int64_t>(entry.bytes);
    if (entry.action == kSegmentAlloc || entry.action == kSegmentMap) reserved += bytes;
    if (entry.action == kSegmentFree || entry.action == kSegmentUnmap) reserved -= bytes;
  });
  const StreamId stream = create_stream();
  for (size_t bytes : {size_t{512}, 5 * kMiB, 33 * kMiB}) {
    allocate(bytes);
    allocate(bytes, stream);
    const int64_t kept = stats().reserved_bytes.all.current - reserved;
    EXPECT_GE(kept, 0);
    EXPECT_TRUE(kept == 0 || !GetParam().reports_all_reserved) << kept;
  }
  free_all();
  require_ok(engine().trim());
  EXPECT_EQ(reserved, 0);
}

TEST_P(EngineHooksContract, TrackersSeeOutOfMemory) {
  allocate_until_full(24 * kMiB);
  std::vector<TraceEntry> entries;
  engine().add_tracker([&](const TraceEntry& entry) {
    if (entry.action == kOom) entries.push_back(entry);
  });
  (void)allocation_error(24 * kMiB);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_GE(entries[0].bytes, 24 * kMiB);
}

TEST_P(EngineHooksContract, TrackerMayCallTheEngine) {
  const StreamId inner = create_stream();
  int call_count = 0;
  engine().add_tracker([&](const TraceEntry& entry) {
    if (entry.action != kAlloc || entry.stream == inner) return;
    ++call_count;
    (void)stats();
    free(allocate(2000, inner));
    engine().reset_peak_stats();
  });
  free(allocate(512));
  free(allocate(3 * kMiB));
  EXPECT_EQ(call_count, 2);
  EXPECT_EQ(active_count(), 0);
}

TEST_P(EngineHooksContract, NotifiesEveryTracker) {
  int first_count = 0;
  int second_count = 0;
  engine().add_tracker([&](const TraceEntry&) { ++first_count; });
  engine().add_tracker([&](const TraceEntry&) { ++second_count; });
  free(allocate(512));
  EXPECT_GE(first_count, 3);
  EXPECT_EQ(second_count, first_count);
}

}  // namespace ashlar::contract
