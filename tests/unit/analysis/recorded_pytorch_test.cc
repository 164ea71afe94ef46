// SPDX-License-Identifier: Apache-2.0
//
// Tests the inferred version, platform and options of the PyTorch that made a recording.
#include "analysis/recorded_pytorch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

// A snapshot with one entry, of a version that wrote times but no pools and no metadata.
Snapshot snapshot_with_times() {
  Snapshot snapshot = TraceBuilder().alloc(kBase, 512).snapshot();
  snapshot.device_traces[0][0].has_user_metadata = false;
  return snapshot;
}

AllocatorOptions pytorch_options() {
  AllocatorOptions options;
  options.engine = EngineKind::kClassic;
  options.pytorch_compatible = true;
  return options;
}

TEST(RecordedPytorchTest, InfersVersionFromFieldsOfEntries) {
  Snapshot snapshot = snapshot_with_times();
  TraceEntry& entry = snapshot.device_traces[0][0];
  EXPECT_EQ(find_pytorch(snapshot, pytorch_options()).minor_version, 2U);
  entry.has_user_metadata = true;
  EXPECT_EQ(find_pytorch(snapshot, pytorch_options()).minor_version, 9U);
  entry.has_pool = true;
  const RecordedPytorch pytorch = find_pytorch(snapshot, pytorch_options());
  EXPECT_EQ(pytorch.minor_version, 12U);
  EXPECT_TRUE(pytorch.is_version_shown);
  EXPECT_TRUE(pytorch.available.large_segment_size);
}

TEST(RecordedPytorchTest, InfersVersionFromNamesOfSettings) {
  Snapshot snapshot;
  EXPECT_FALSE(find_pytorch(snapshot, pytorch_options()).is_version_shown);
  snapshot.settings = {{"expandable_segments", false}};
  EXPECT_TRUE(find_pytorch(snapshot, pytorch_options()).is_version_shown);
  EXPECT_EQ(find_pytorch(snapshot, pytorch_options()).minor_version, 1U);
  snapshot.settings.emplace_back("graph_capture_record_stream_reuse", false);
  EXPECT_EQ(find_pytorch(snapshot, pytorch_options()).minor_version, 9U);
}

TEST(RecordedPytorchTest, WindowsHasNoExpandableSegments) {
  Snapshot snapshot = snapshot_with_times();
  EXPECT_TRUE(find_pytorch(snapshot, pytorch_options()).available.expandable_segments);
  snapshot.tables.frames.push_back({"train", "C:\\work\\train.py", 7, {}});
  const RecordedPytorch pytorch = find_pytorch(snapshot, pytorch_options());
  EXPECT_EQ(pytorch.platform, RecordedPlatform::kWindows);
  EXPECT_FALSE(pytorch.available.expandable_segments);
  EXPECT_THAT(describe(pytorch), HasSubstr("no expandable_segments on Windows"));
}

TEST(RecordedPytorchTest, InfersRocmFromFunctionsAndSettings) {
  Snapshot snapshot = snapshot_with_times();
  snapshot.tables.frames.push_back({"c10::hip::HIPCachingAllocator::malloc", "??", 0, {}});
  EXPECT_EQ(find_pytorch(snapshot, pytorch_options()).platform, RecordedPlatform::kRocm);
  snapshot.tables.frames.pop_back();
  snapshot.settings = {{"pinned_use_hip_host_register", false}};
  EXPECT_EQ(find_pytorch(snapshot, pytorch_options()).platform, RecordedPlatform::kRocm);
}

TEST(RecordedPytorchTest, RecordedOptionsAreAvailable) {
  Snapshot snapshot = snapshot_with_times();
  snapshot.tables.frames.push_back({"train", "D:/train.py", 7, {}});
  EXPECT_FALSE(find_pytorch(snapshot, pytorch_options()).available.large_segment_size);
  AllocatorOptions recorded = pytorch_options();
  recorded.expandable_segments = true;
  recorded.large_segment_bytes = size_t{64} << 20;
  const AvailableOptions available = find_pytorch(snapshot, recorded).available;
  EXPECT_TRUE(available.expandable_segments);
  EXPECT_TRUE(available.large_segment_size);
}

}  // namespace
}  // namespace ashlar
