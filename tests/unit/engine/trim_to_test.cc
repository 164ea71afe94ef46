// SPDX-License-Identifier: Apache-2.0
//
// Tests which segments and granules the classic engine's trim_to releases.
#include "unit/engine/classic_fixture.h"

namespace ashlar::classic {
namespace {

class TrimTo : public ClassicFixture {
 protected:
  size_t trim_to(size_t reserved_bytes) {
    const Result<size_t> given = engine_->trim_to({reserved_bytes, TrimWait::kNever, {}});
    EXPECT_TRUE(given.ok()) << given.status().to_string();
    return given.ok() ? *given : 0;
  }
};

TEST_F(TrimTo, ReleasesLargestFittingSegmentFirst) {
  start();
  cache(12 * kMiB);
  std::vector<Block*> blocks = {allocate(20 * kMiB), allocate(40 * kMiB), allocate(30 * kMiB)};
  for (Block* block : blocks) free(block);
  const size_t reserved = used_bytes();
  EXPECT_EQ(trim_to(reserved - 30 * kMiB), 30 * kMiB);
}

TEST_F(TrimTo, ReleasesOnlyNeededGranules) {
  AllocatorOptions options;
  options.expandable_segments = true;
  start(options);
  const DeviceAddress address = cache(100 * kMiB);
  const size_t granule = 20 * kMiB;
  EXPECT_EQ(trim_to(70 * kMiB), 2 * granule);
  EXPECT_EQ(used_bytes(), 60 * kMiB);
  EXPECT_EQ(allocate(60 * kMiB)->address, address) << "the front stays";
}

TEST_F(TrimTo, KeepsPlainSegmentsWhileAnyStreamIsBusy) {
  start();
  const StreamId busy = *device().create_stream();
  free(allocate(20 * kMiB, busy));
  cache(30 * kMiB);
  keep_busy(busy);
  EXPECT_EQ(trim_to(0), 0U) << "the driver would wait for the other stream";
  must(machine_->resume_stream(DeviceIndex(0), busy));
  must(device().synchronize_stream(busy));
  EXPECT_EQ(trim_to(0), 50 * kMiB);
}

TEST_F(TrimTo, ReleasesGranulesOfIdleStreams) {
  AllocatorOptions options;
  options.expandable_segments = true;
  start(options);
  const StreamId busy = *device().create_stream();
  free(allocate(20 * kMiB, busy));
  cache(40 * kMiB);
  keep_busy(busy);
  EXPECT_EQ(trim_to(0), 40 * kMiB);
  EXPECT_EQ(used_bytes(), 20 * kMiB);
  must(machine_->resume_stream(DeviceIndex(0), busy));
}

}  // namespace
}  // namespace ashlar::classic
