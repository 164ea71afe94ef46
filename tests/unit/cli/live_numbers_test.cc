// SPDX-License-Identifier: Apache-2.0
//
// What a process tells, and what is not believed.
#include "cli/live_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "live/exporters.h"
#include "unit/live/status_sample.h"

namespace ashlar {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(LiveNumbersTest, ReadsWhatAProcessTells) {
  const Result<LiveNumbers> read = read_live_numbers(live::stats_json(live::hostile_process()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->program, "odd \"program\"");
  EXPECT_EQ(read->version, "0.1.0");
  EXPECT_EQ(read->shown_seconds, 12.5);
  EXPECT_EQ(read->trouble, "the port was taken");
  ASSERT_EQ(read->allocators.size(), 2U);
  const AllocatorNumbers& odd = read->allocators[0];
  EXPECT_EQ(odd.number, 3U);
  EXPECT_EQ(odd.device, 1U);
  EXPECT_EQ(odd.reserved_bytes, 4096U);
  EXPECT_EQ(odd.blocks, 5U);
  EXPECT_EQ(odd.allocations, 7U);
  EXPECT_EQ(odd.ooms, 2U);
  EXPECT_TRUE(read->allocators[1].is_history_on);
  EXPECT_EQ(read->total(&AllocatorNumbers::reserved_bytes), 4096U);
  ASSERT_EQ(read->host_allocators.size(), 1U);
  const HostNumbers& pinned = read->host_allocators[0];
  EXPECT_EQ(pinned.number, 5U);
  EXPECT_EQ(pinned.reserved_bytes, 8192U);
  EXPECT_EQ(pinned.active_bytes, 4096U);
  EXPECT_EQ(pinned.allocated_bytes, 4096U - 1024 - 512) << "what waits is not handed out";
  EXPECT_EQ(pinned.requested_bytes, 4000U);
  EXPECT_EQ(pinned.blocks, 2U);
  EXPECT_EQ(pinned.allocations, 3U);
  EXPECT_EQ(pinned.host_calls, 3U);
  EXPECT_EQ(pinned.ooms, 6U);
}

TEST(LiveNumbersTest, AProgramThatKnowsNothingOfPinnedMemoryIsUnderstood) {
  json older = json::parse(live::stats_json(live::hostile_process()));
  older.erase("host_allocators");
  const Result<LiveNumbers> read = read_live_numbers(older.dump());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read->host_allocators.empty());
}

TEST(LiveNumbersTest, WhatWaitsIsNeverMoreThanWhatIsActive) {
  json odd = json::parse(live::stats_json(live::hostile_process()));
  odd["host_allocators"][0]["stats"]["pending_bytes.current"] = 1'000'000;
  EXPECT_EQ(read_live_numbers(odd.dump())->host_allocators[0].allocated_bytes, 0U);
}

TEST(LiveNumbersTest, WhateverIsMissingOrOfAnotherKindIsNamed) {
  const json good = json::parse(live::stats_json(live::hostile_process()));
  const auto complaint = [](const json& told) {
    const Result<LiveNumbers> read = read_live_numbers(told.dump());
    EXPECT_EQ(read.status().kind(), StatusKind::kFormat) << told;
    return read.status().message();
  };
  for (const auto& [name, value] : good.items()) {
    if (name == "pid") continue;  // the system knows it better
    if (name != "host_allocators") {
      json without = good;
      without.erase(name);
      EXPECT_THAT(complaint(without), HasSubstr(name));
    }
    json other = good;
    other[name] = json::object();
    EXPECT_THAT(complaint(other), HasSubstr(name));
  }
  for (const auto& [name, value] : good["allocators"][0].items()) {
    if (name == "options") continue;
    json other = good;
    other["allocators"][1][name] = nullptr;
    EXPECT_THAT(complaint(other), HasSubstr(name));
  }
  for (const auto& [name, value] : good["host_allocators"][0].items()) {
    json other = good;
    other["host_allocators"][0][name] = nullptr;
    EXPECT_THAT(complaint(other), HasSubstr(name));
  }
  json newer = good;
  newer["version"] = 2;
  EXPECT_THAT(complaint(newer), HasSubstr("version 2 (expected 1)"));
  json negative = good;
  negative["allocators"][0]["stats"]["reserved_bytes.all.current"] = -5;
  EXPECT_EQ(read_live_numbers(negative.dump())->allocators[0].reserved_bytes, 0U);
}

TEST(LiveNumbersTest, NonsenseIsRefused) {
  for (const char* text : {"", "[]", "null", "{", "{}", "\xff", "{\"allocators\": 3}"}) {
    EXPECT_EQ(read_live_numbers(text).status().kind(), StatusKind::kFormat) << text;
  }
  EXPECT_FALSE(read_live_numbers(std::string(100'000, '[')).ok());
}

}  // namespace
}  // namespace ashlar
