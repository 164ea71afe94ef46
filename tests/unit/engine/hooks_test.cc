// SPDX-License-Identifier: Apache-2.0
//
// Tests of Hooks without an engine: which observers are notified, when, and in which order.
#include "engine/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace ashlar {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr DeviceIndex kDevice(3);

class HooksTest : public ::testing::Test {
 protected:
  void listen() {
    hooks_.add_tracker([this](const TraceEntry& entry) { delivered_.push_back(entry.bytes); });
  }
  void put(size_t bytes) {
    TraceEntry entry;
    entry.bytes = bytes;
    hooks_.record(entry);
  }
  void start_history() { EXPECT_TRUE(history_.start({}).ok()); }
  Snapshot recorded() const {
    Snapshot snapshot;
    snapshot.device_traces.resize(kDevice.value() + 1);
    history_.read_into(snapshot, kDevice);
    return snapshot;
  }
  std::vector<size_t> recorded_bytes() const {
    const Snapshot snapshot = recorded();
    std::vector<size_t> bytes;
    for (const TraceEntry& entry : snapshot.device_traces[kDevice.value()]) {
      bytes.push_back(entry.bytes);
    }
    return bytes;
  }

  History history_;
  Hooks hooks_{history_, kDevice};
  std::vector<size_t> delivered_;
};

TEST_F(HooksTest, EntryDescribesBlockAndStack) {
  Block block;
  block.address = DeviceAddress(512);
  block.bytes = 2048;
  block.stream = StreamId(7);
  block.stack = StackId(9);
  const TraceEntry entry = make_entry(TraceAction::kFreeCompleted, block, 100);
  EXPECT_EQ(entry.action, TraceAction::kFreeCompleted);
  EXPECT_EQ(entry.address, DeviceAddress(512));
  EXPECT_EQ(entry.bytes, 100U);
  EXPECT_EQ(entry.stream, StreamId(7));
  EXPECT_EQ(entry.stack, StackId(9));
}

TEST_F(HooksTest, IsObservedWithHistoryOrTracker) {
  EXPECT_FALSE(hooks_.is_observed());
  start_history();
  EXPECT_TRUE(hooks_.is_observed());
  history_.stop();
  EXPECT_FALSE(hooks_.is_observed());
  listen();
  EXPECT_TRUE(hooks_.is_observed());
}

TEST_F(HooksTest, NotifiesTrackersOnceInOrder) {
  listen();
  put(1);
  put(2);
  EXPECT_THAT(delivered_, IsEmpty()) << "the engine is still locked";
  hooks_.notify();
  EXPECT_THAT(delivered_, ElementsAre(1, 2));
  hooks_.notify();
  EXPECT_THAT(delivered_, ElementsAre(1, 2));
}

TEST_F(HooksTest, RecordsIntoHistoryImmediately) {
  start_history();
  put(1);
  EXPECT_THAT(recorded_bytes(), ElementsAre(1));
  listen();
  put(2);
  EXPECT_THAT(recorded_bytes(), ElementsAre(1, 2));
}

TEST_F(HooksTest, EntriesNameTheDevice) {
  start_history();
  DeviceIndex entry_device(0);
  hooks_.add_tracker([&](const TraceEntry& entry) { entry_device = entry.device; });
  put(1);
  hooks_.record_annotation({}, "mine");
  hooks_.notify();
  EXPECT_EQ(entry_device, kDevice);
  const Snapshot snapshot = recorded();
  const std::vector<TraceEntry>& trace = snapshot.device_traces[kDevice.value()];
  ASSERT_EQ(trace.size(), 2U);
  for (const TraceEntry& entry : trace) EXPECT_EQ(entry.device, kDevice);
}

TEST_F(HooksTest, AnnotationsGoToHistoryOnly) {
  start_history();
  listen();
  TraceEntry entry;
  entry.bytes = 1;
  hooks_.record_annotation(entry, "the weights");
  hooks_.notify();
  EXPECT_THAT(delivered_, IsEmpty());
  const Snapshot snapshot = recorded();
  const std::vector<TraceEntry>& trace = snapshot.device_traces[kDevice.value()];
  ASSERT_EQ(trace.size(), 1U);
  EXPECT_EQ(snapshot.tables.strings[trace[0].user_metadata.value()], "the weights");
}

TEST_F(HooksTest, TrackerMissesEarlierEntries) {
  put(1);
  listen();
  put(2);
  hooks_.notify();
  EXPECT_THAT(delivered_, ElementsAre(2));
}

TEST_F(HooksTest, DiscardedEntriesAreNotDelivered) {
  listen();
  put(1);
  hooks_.discard_queued();
  put(2);
  hooks_.notify();
  EXPECT_THAT(delivered_, ElementsAre(2));
}

TEST_F(HooksTest, NestedEntriesAreDeliveredAfterwards) {
  hooks_.add_tracker([this](const TraceEntry& entry) {
    if (entry.bytes != 1) return;
    put(3);
    hooks_.notify();  // every engine operation does this at its end
  });
  listen();
  put(1);
  put(2);
  hooks_.notify();
  EXPECT_THAT(delivered_, ElementsAre(1, 2, 3));
}

TEST_F(HooksTest, TrackerMayAddTracker) {
  bool is_first = true;
  hooks_.add_tracker([&](const TraceEntry&) {
    if (std::exchange(is_first, false)) listen();
  });
  put(1);
  hooks_.notify();
  put(2);
  hooks_.notify();
  EXPECT_THAT(delivered_, ElementsAre(2));
}

TEST_F(HooksTest, ConcurrentNotifyDeliversInTurn) {
  listen();  // `delivered_` is unguarded, so ThreadSanitizer reports concurrent deliveries
  constexpr size_t kThreads = 4;
  constexpr size_t kEach = 500;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      for (size_t n = 0; n < kEach; ++n) {
        put(n);
        hooks_.notify();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(delivered_.size(), kThreads * kEach);
}

TEST_F(HooksTest, RejectionsHaveTheirOwnObservers) {
  std::vector<std::string> entry_device;
  hooks_.add_oom_observer([&](const OomNotice&) { entry_device.emplace_back("oom"); });
  hooks_.add_rejection_observer([&](const OomNotice&) { entry_device.emplace_back("rejection"); });
  hooks_.notify_oom({}, false);
  EXPECT_THAT(entry_device, ElementsAre("oom"));
  hooks_.notify_oom({}, true);
  EXPECT_THAT(entry_device, ElementsAre("oom", "rejection"));
}

TEST_F(HooksTest, RunsAllFreeMemoryCallbacks) {
  EXPECT_FALSE(hooks_.has_free_memory_callbacks());
  EXPECT_FALSE(hooks_.run_free_memory_callbacks());
  int asked = 0;
  hooks_.add_free_memory_callback([&] { return ++asked == 0; });
  EXPECT_TRUE(hooks_.has_free_memory_callbacks());
  EXPECT_FALSE(hooks_.run_free_memory_callbacks());
  hooks_.add_free_memory_callback([&] { return ++asked != 0; });
  hooks_.add_free_memory_callback([&] { return ++asked == 0; });
  EXPECT_TRUE(hooks_.run_free_memory_callbacks());
  EXPECT_EQ(asked, 4);
}

}  // namespace
}  // namespace ashlar
