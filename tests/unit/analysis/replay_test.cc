// Replays of traces that are not whole, small enough to know the answer; whole ones are
// tests/golden/replay_golden_test.cc's.
#include "analysis/replay.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr uint64_t kBase = 0x7f0000000000;

class ReplayTest : public testing::Test {
 protected:
  ReplayTest() {
    options_.allocator.pytorch_compatible = true;
    options_.recorded.pytorch_compatible = true;
    options_.capacity_bytes = 8 * kGiB;
  }

  ReplayResult replayed() {
    const Allocations allocations = find_allocations(trace_.snapshot(), options_.device);
    Result<ReplayResult> result = replay(trace_.snapshot(), allocations, options_);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? *std::move(result) : ReplayResult();
  }

  TraceBuilder trace_;
  ReplayOptions options_;
};

// --- frees that were not recorded ----------------------------------------------------------------

TEST_F(ReplayTest, ABlockWhoseAddressIsHandedOutAgainIsFreedFirst) {
  trace_.act(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 20 * kMiB);
  trace_.alloc(kBase, 20 * kMiB);
  const ReplayResult result = replayed();
  EXPECT_EQ(result.stats.reserved_bytes.all.peak, 20 * kMiB);
  EXPECT_EQ(result.same_address_count, 2U);
}

TEST_F(ReplayTest, APendingBlockWhoseAddressIsHandedOutAgainIsPendingNoMore) {
  trace_.act(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 20 * kMiB);
  trace_.act(TraceAction::kFreeRequested, kBase, 20 * kMiB).act(TraceAction::kSnapshot, 0, 0);
  trace_.alloc(kBase, 20 * kMiB);
  const ReplayResult result = replayed();
  EXPECT_EQ(result.stats.reserved_bytes.all.peak, 20 * kMiB);
  EXPECT_EQ(result.same_address_count, 2U);
}

}  // namespace
}  // namespace ashlar
