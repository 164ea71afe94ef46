// SPDX-License-Identifier: Apache-2.0
//
// Tests the parsing of limits, and regression checks.
#include "analysis/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

TEST(GateTest, ParsesPercentagesAndBytes) {
  EXPECT_DOUBLE_EQ(parse_gate_limit("+2%")->fraction, 0.02);
  EXPECT_DOUBLE_EQ(parse_gate_limit("2.5%")->fraction, 0.025);
  EXPECT_DOUBLE_EQ(parse_gate_limit("0%")->fraction, 0);
  EXPECT_EQ(parse_gate_limit("+100MiB")->bytes, 100 * kMiB);
  EXPECT_EQ(parse_gate_limit("512")->bytes, 512U);
}

TEST(GateTest, RejectsInvalidLimits) {
  for (const char* text : {"", "+", "%", "+%", "two%", "-2%", "++2%", "+2%%", "1e3%", "+-5MiB",
                           "2 %", "1.2.3%", "100parsecs", "nan%", "inf%", "99999999999999%"}) {
    const Result<GateLimit> limit = parse_gate_limit(text);
    ASSERT_FALSE(limit.ok()) << text;
    EXPECT_TRUE(limit.status().is(StatusKind::kInvalidArgument)) << text;
    EXPECT_THAT(limit.status().message(), HasSubstr("\"" + std::string(text) + "\"")) << text;
    EXPECT_THAT(limit.status().message(), HasSubstr("+2% or +100MiB"));
  }
}

TEST(GateTest, MeasuresFragmentationAtTheReservedPeak) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, 0, 1000).alloc(0, 750).free(0, 750);
  const Allocations allocations = find_allocations(trace.snapshot(), DeviceIndex(0));
  const GateMetrics metrics =
      gate_metrics(make_timeline(trace.snapshot(), DeviceIndex(0), allocations));
  EXPECT_EQ(metrics.peak_requested_bytes, 750U);
  EXPECT_EQ(metrics.peak_reserved_bytes, 1000U);
  EXPECT_DOUBLE_EQ(metrics.fragmentation, 0.25);
}

TEST(GateTest, HasNoFragmentationWithoutSegments) {
  TraceBuilder trace;
  trace.alloc(0, 750);
  const Allocations allocations = find_allocations(trace.snapshot(), DeviceIndex(0));
  const Timeline timeline = make_timeline(trace.snapshot(), DeviceIndex(0), allocations);
  EXPECT_EQ(gate_metrics(timeline).fragmentation, 0);
}

GateMetrics metrics(size_t requested, size_t reserved, double fragmentation) {
  return {.peak_requested_bytes = requested,
          .peak_reserved_bytes = reserved,
          .fragmentation = fragmentation};
}

TEST(GateTest, PassesAtTheLimitAndFailsAbove) {
  const GateMetrics base = metrics(1000, 2000, 0.10);
  const GateLimits limits = {.peak = GateLimit{.fraction = 0.02}, .fragmentation_fraction = 0.01};
  EXPECT_TRUE(check_gate(base, metrics(1020, 2040, 0.11), limits).is_passed());
  EXPECT_FALSE(check_gate(base, metrics(1021, 2040, 0.11), limits).is_passed());
  EXPECT_FALSE(check_gate(base, metrics(1020, 2041, 0.11), limits).is_passed());
  EXPECT_FALSE(check_gate(base, metrics(1020, 2040, 0.1101), limits).is_passed());
}

TEST(GateTest, AddsALimitInBytesToTheBase) {
  const GateLimits limits = {.peak = GateLimit{.bytes = 100}};
  EXPECT_TRUE(check_gate(metrics(1000, 2000, 0), metrics(1100, 2100, 0), limits).is_passed());
  EXPECT_FALSE(check_gate(metrics(1000, 2000, 0), metrics(1100, 2101, 0), limits).is_passed());
}

TEST(GateTest, ChecksOnlyMetricsWithALimit) {
  const GateResult result =
      check_gate(metrics(1, 1, 0.0), metrics(9, 9, 0.9), {.fragmentation_fraction = 1});
  ASSERT_EQ(result.checks.size(), 1U);
  EXPECT_EQ(result.checks[0].name, "fragmentation");
  EXPECT_TRUE(result.is_passed());
}

TEST(GateTest, PassesOnImprovement) {
  const GateLimits limits = {.peak = GateLimit{}, .fragmentation_fraction = 0};
  EXPECT_TRUE(check_gate(metrics(1000, 2000, 0.5), metrics(10, 20, 0.1), limits).is_passed());
}

}  // namespace
}  // namespace ashlar
