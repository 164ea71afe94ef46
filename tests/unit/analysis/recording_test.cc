// SPDX-License-Identifier: Apache-2.0
//
// Tests which devices a recording has, which device is selected by default, and what is computed
// when a recording is opened.
#include "analysis/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SnapshotSegment segment_on(uint64_t device) {
  SnapshotSegment segment;
  segment.device = DeviceIndex(device);
  return segment;
}

SnapshotExtent extent_on(uint64_t device) {
  SnapshotExtent extent;
  extent.device = DeviceIndex(device);
  return extent;
}

TEST(DevicesInTest, ListsTracesSegmentsAndExtentsInOrder) {
  Snapshot snapshot;
  snapshot.device_traces = {{}, {{}, {}}, {}, {{}}};
  snapshot.segments = {segment_on(7), segment_on(0), segment_on(1)};
  snapshot.extents = {extent_on(5), extent_on(7)};
  EXPECT_THAT(devices_in(snapshot), ElementsAre(DeviceIndex(0), DeviceIndex(1), DeviceIndex(3),
                                                DeviceIndex(5), DeviceIndex(7)));
}

TEST(DevicesInTest, TreatsAnEmptySnapshotAsDeviceZero) {
  Snapshot snapshot;
  EXPECT_THAT(devices_in(snapshot), ElementsAre(DeviceIndex(0)));
  snapshot.device_traces.resize(4);
  EXPECT_THAT(devices_in(snapshot), ElementsAre(DeviceIndex(0)));
}

TEST(DevicesInTest, IgnoresIndexesThatNoFileMayContain) {
  Snapshot snapshot;
  snapshot.segments = {segment_on(kMaxDevices - 1), segment_on(kMaxDevices),
                       segment_on(UINT64_MAX)};
  EXPECT_THAT(devices_in(snapshot), ElementsAre(DeviceIndex(kMaxDevices - 1)));
}

TEST(RecordingTest, SelectsTheDeviceThatRanOutOfMemory) {
  TraceEntry oom;
  oom.action = TraceAction::kOom;
  TraceEntry segment;
  segment.action = TraceAction::kSegmentAlloc;
  segment.bytes = 4096;
  Snapshot snapshot;
  snapshot.device_traces = {{{}, {}}, {segment}, {{}, {}, {}}};
  EXPECT_EQ(Recording::create("run", snapshot)->default_device(), DeviceIndex(1)) << "most bytes";
  snapshot.segments = {segment_on(5)};
  snapshot.segments[0].total_bytes = 8192;
  EXPECT_EQ(Recording::create("run", snapshot)->default_device(), DeviceIndex(5)) << "no history";
  snapshot.device_traces[0].push_back(oom);
  const auto recording = Recording::create("run", snapshot);
  EXPECT_EQ(recording->default_device(), DeviceIndex(0));
  const std::vector<DeviceSummary> others = recording->other_devices(DeviceIndex(1));
  ASSERT_EQ(others.size(), 3U);
  EXPECT_EQ(others[0].oom_count, 1U);
  EXPECT_EQ(others[2].device, DeviceIndex(5));
  EXPECT_EQ(others[2].peak_reserved_bytes, 8192U);
}

TEST(RecordingTest, SelectsTheLongestTraceIfNoMemoryWasReserved) {
  Snapshot snapshot;
  EXPECT_EQ(Recording::create("run", snapshot)->default_device(), DeviceIndex(0));
  snapshot.segments = {segment_on(3), segment_on(1)};
  EXPECT_EQ(Recording::create("run", snapshot)->default_device(), DeviceIndex(1));
  snapshot.device_traces = {{{}}, {{}, {}}, {{}, {}, {}}};
  EXPECT_EQ(Recording::create("run", snapshot)->default_device(), DeviceIndex(2));
}

TEST(RecordingTest, DefaultDeviceIsNeverAnInvalidOne) {
  Snapshot snapshot;
  snapshot.segments = {segment_on(UINT64_MAX), segment_on(7)};
  EXPECT_EQ(Recording::create("run", snapshot)->default_device(), DeviceIndex(7));
  snapshot.device_traces.resize(kMaxDevices + 1);
  snapshot.device_traces[kMaxDevices] = {{}, {}};
  EXPECT_EQ(Recording::create("run", snapshot)->default_device(), DeviceIndex(7));
  snapshot.device_traces[3] = {{}};
  EXPECT_EQ(Recording::create("run", snapshot)->default_device(), DeviceIndex(3));
}

TEST(RecordingTest, DefaultDeviceCanAlwaysBeSelected) {
  Snapshot snapshot;
  snapshot.extents = {extent_on(6)};
  const Result<DeviceRecording> selected =
      select_device(Recording::create("run", snapshot), std::nullopt);
  ASSERT_TRUE(selected.ok()) << selected.status().message();
  EXPECT_EQ(selected->device(), DeviceIndex(6));
  EXPECT_FALSE(selected->has_history());
}

TEST(RecordingTest, ListsItsDevicesIfTheRequestedOneIsMissing) {
  Snapshot snapshot;
  snapshot.device_traces = {{{}}, {}, {{}}};
  const Result<DeviceRecording> selected = select_device(Recording::create("run", snapshot), 1);
  ASSERT_TRUE(selected.status().is(StatusKind::kInvalidArgument));
  EXPECT_EQ(selected.status().message(), "the file has no data of device 1 (expected one of 0, 2)");
}

TEST(RecordingTest, FailsToOpenAFileThatDoesNotExist) {
  const Result<std::shared_ptr<const Recording>> opened =
      Recording::open("/nonexistent/run.pickle");
  ASSERT_TRUE(opened.status().is(StatusKind::kFormat));
  EXPECT_THAT(opened.status().message(), HasSubstr("/nonexistent/run.pickle: "));
}

TEST(RecordingTest, LeavesTheTraceOfADeviceWithoutHistoryEmpty) {
  TraceBuilder trace;
  trace.ends_with(4096, 512, SnapshotBlockState::kAllocated);
  const Result<DeviceRecording> run = select_device(Recording::create("run", trace.snapshot()), 0);
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(run->trace(), IsEmpty());
  EXPECT_EQ(run->allocations().all.size(), 1U);
  EXPECT_EQ(run->timeline().initial.live_bytes, 512U);
}

TEST(RecordingTest, InfersThePoolsOfEveryDevice) {
  TraceBuilder trace;
  trace.alloc(4096, 512).ends_with(4096, 512, SnapshotBlockState::kAllocated);
  Snapshot snapshot = trace.snapshot();
  snapshot.segments[0].pool = {0, 7};
  snapshot.segments.push_back(snapshot.segments[0]);
  snapshot.segments[1].device = DeviceIndex(1);
  snapshot.device_traces.push_back(snapshot.device_traces[0]);
  const auto recording = Recording::create("run", snapshot);
  for (const std::vector<TraceEntry>& each : recording->snapshot().device_traces) {
    EXPECT_EQ(each[0].pool, (PoolId{0, 7}));
  }
}

TEST(RecordingConcurrencyTest, ComputesTheTimelineOnce) {
  TraceBuilder trace;
  trace.alloc(512, 100).free(512, 100);
  const Result<DeviceRecording> run = select_device(Recording::create("run", trace.snapshot()), 0);
  ASSERT_TRUE(run.ok());
  const Timeline* seen[2] = {};
  std::thread other([&] { seen[0] = &run->timeline(); });
  seen[1] = &run->timeline();
  other.join();
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(run->timeline().requested_peak.bytes, 100U);
}

}  // namespace
}  // namespace ashlar
