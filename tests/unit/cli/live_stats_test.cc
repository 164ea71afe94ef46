// SPDX-License-Identifier: Apache-2.0
//
// Tests the parsing of valid and malformed statistics of a monitored process.
#include "cli/live/live_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "live/exporters.h"
#include "unit/live/status_sample.h"

namespace ashlar {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(LiveStatsTest, ParsesStatsOfProcess) {
  const Result<LiveStats> stats =
      parse_live_stats(live::format_stats_json(live::hostile_process()));
  ASSERT_TRUE(stats.ok()) << stats.status().message();
  EXPECT_EQ(stats->program, "odd \"program\"");
  EXPECT_EQ(stats->version, "0.1.0");
  EXPECT_EQ(stats->monitored_seconds, 12.5);
  EXPECT_EQ(stats->setup_error, "the port was taken");
  ASSERT_EQ(stats->allocators.size(), 2U);
  const LiveAllocatorStats& odd = stats->allocators[0];
  EXPECT_EQ(odd.number, 3U);
  EXPECT_EQ(odd.device, 1U);
  EXPECT_EQ(odd.reserved_bytes, 4096U);
  EXPECT_EQ(odd.blocks, 5U);
  EXPECT_EQ(odd.allocations, 7U);
  EXPECT_EQ(odd.ooms, 2U);
  EXPECT_TRUE(stats->allocators[1].is_history_on);
  EXPECT_EQ(stats->total(&LiveAllocatorStats::reserved_bytes), 4096U);
  ASSERT_EQ(stats->host_allocators.size(), 1U);
  const LiveHostStats& pinned = stats->host_allocators[0];
  EXPECT_EQ(pinned.number, 5U);
  EXPECT_EQ(pinned.reserved_bytes, 8192U);
  EXPECT_EQ(pinned.active_bytes, 4096U);
  EXPECT_EQ(pinned.allocated_bytes, 4096U - 1024 - 512)
      << "pending and graph bytes are not allocated";
  EXPECT_EQ(pinned.requested_bytes, 4000U);
  EXPECT_EQ(pinned.blocks, 2U);
  EXPECT_EQ(pinned.allocations, 3U);
  EXPECT_EQ(pinned.host_calls, 3U);
  EXPECT_EQ(pinned.ooms, 6U);
}

TEST(LiveStatsTest, ClampsPendingBytesToActiveBytes) {
  json odd = json::parse(live::format_stats_json(live::hostile_process()));
  odd["host_allocators"][0]["stats"]["pending_bytes.current"] = 1'000'000;
  EXPECT_EQ(parse_live_stats(odd.dump())->host_allocators[0].allocated_bytes, 0U);
}

TEST(LiveStatsTest, NamesMissingOrInvalidField) {
  const json good = json::parse(live::format_stats_json(live::hostile_process()));
  const auto error_for = [](const json& response) {
    const Result<LiveStats> stats = parse_live_stats(response.dump());
    EXPECT_EQ(stats.status().kind(), StatusKind::kFormat) << response;
    return stats.status().message();
  };
  for (const auto& [name, value] : good.items()) {
    if (name == "pid") continue;  // not a statistic
    json without = good;
    without.erase(name);
    EXPECT_THAT(error_for(without), HasSubstr(name));
    json other = good;
    other[name] = json::object();
    EXPECT_THAT(error_for(other), HasSubstr(name));
  }
  for (const auto& [name, value] : good["allocators"][0].items()) {
    if (name == "options") continue;
    json other = good;
    other["allocators"][1][name] = nullptr;
    EXPECT_THAT(error_for(other), HasSubstr(name));
  }
  for (const auto& [name, value] : good["host_allocators"][0].items()) {
    json other = good;
    other["host_allocators"][0][name] = nullptr;
    EXPECT_THAT(error_for(other), HasSubstr(name));
  }
  for (const int version : {1, 3}) {
    json other = good;
    other["version"] = version;
    EXPECT_THAT(error_for(other), HasSubstr(std::to_string(version) + " (expected 2)"));
  }
  json negative = good;
  negative["allocators"][0]["stats"]["reserved_bytes.all.current"] = -5;
  EXPECT_EQ(parse_live_stats(negative.dump())->allocators[0].reserved_bytes, 0U);
}

TEST(LiveStatsTest, RejectsMalformedJson) {
  for (const char* text : {"", "[]", "null", "{", "{}", "\xff", "{\"allocators\": 3}"}) {
    EXPECT_EQ(parse_live_stats(text).status().kind(), StatusKind::kFormat) << text;
  }
  EXPECT_FALSE(parse_live_stats(std::string(100'000, '[')).ok());
}

}  // namespace
}  // namespace ashlar
