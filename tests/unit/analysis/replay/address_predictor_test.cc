// SPDX-License-Identifier: Apache-2.0
//
// Tests predicted addresses, which follow from the driver's rule and from inferred allocations.
#include "analysis/replay/address_predictor.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

class AddressPredictorTest : public ::testing::Test {
 protected:
  void recorded(size_t mib, uint64_t at) { trace_.add(TraceAction::kSegmentAlloc, at, mib * kMiB); }
  AddressPredictor addresses() { return AddressPredictor(trace_.snapshot().device_traces[0]); }

  TraceBuilder trace_;
};

TEST_F(AddressPredictorTest, UsesFoundSpaceFromItsEntryOn) {
  recorded(20, kFirstChunkEnd - 32 * kMiB);
  recorded(40, kFirstChunkEnd + 100 * kMiB);
  AddressPredictor predictor = addresses();
  predictor.advance_to(0);
  EXPECT_EQ(predictor.allocate(24 * kMiB), kFirstChunkEnd - 32 * kMiB);
  predictor.advance_to(1);
  EXPECT_EQ(predictor.allocate(30 * kMiB), kFirstChunkEnd + 100 * kMiB);
  EXPECT_EQ(predictor.allocate(30 * kMiB), kFirstChunkEnd + 130 * kMiB);
  EXPECT_EQ(predictor.allocate(30 * kMiB), kFirstChunkEnd - 64 * kMiB) << "no space is left";
}

TEST_F(AddressPredictorTest, KeepsRecordedChunkWhenItBecomesEmpty) {
  recorded(20, kFirstChunkEnd - 32 * kMiB);
  recorded(40, kFirstChunkEnd + 100 * kMiB);
  AddressPredictor predictor = addresses();
  predictor.advance_to(1);
  const uint64_t first = predictor.allocate(30 * kMiB);
  predictor.free(first);
  EXPECT_EQ(predictor.allocate(60 * kMiB), first);
}

TEST_F(AddressPredictorTest, PlacesInferredAllocationsByDriverRule) {
  recorded(20, kFirstChunkEnd - 32 * kMiB);
  recorded(2, kFirstChunkEnd - 8 * kMiB);
  AddressPredictor predictor = addresses();
  predictor.advance_to(0);
  EXPECT_EQ(predictor.allocate(24 * kMiB), kFirstChunkEnd - 32 * kMiB);
  predictor.advance_to(1);
  EXPECT_EQ(predictor.allocate(2 * kMiB), kFirstChunkEnd - 4 * kMiB)
      << "4 MiB were inferred elsewhere";
}

TEST_F(AddressPredictorTest, OpensGapWithinMovedRange) {
  recorded(20, kFirstChunkEnd - 32 * kMiB);
  recorded(20, kFirstChunkEnd - 192 * kMiB);
  recorded(20, kFirstChunkEnd - 96 * kMiB);
  AddressPredictor predictor = addresses();
  predictor.advance_to(0);
  EXPECT_EQ(predictor.allocate(60 * kMiB), kFirstChunkEnd - 64 * kMiB)
      << "32 MiB of the gap that is closed later";
  predictor.advance_to(1);
  EXPECT_EQ(predictor.allocate(20 * kMiB), kFirstChunkEnd - 224 * kMiB) << "128 MiB are above";
  predictor.advance_to(2);
  EXPECT_EQ(predictor.allocate(20 * kMiB), kFirstChunkEnd - 128 * kMiB)
      << "32 MiB lower, like the moved range";
}

TEST_F(AddressPredictorTest, AppliesTheRuleWithoutSegments) {
  AddressPredictor predictor = addresses();
  const uint64_t first = predictor.allocate(20 * kMiB);
  EXPECT_NE(first, 0U);
  EXPECT_EQ(predictor.allocate(20 * kMiB), first - 32 * kMiB);
}

}  // namespace
}  // namespace ashlar
