// SPDX-License-Identifier: Apache-2.0
//
// Tests the normalization of tables.
#include "format/renumber_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/format/sample_snapshot.h"

namespace ashlar {
namespace {

TEST(RenumberTables, KeepsTablesThatAreInOrder) {
  Snapshot snapshot = sample_snapshot();
  renumber_tables(snapshot);
  EXPECT_EQ(snapshot, sample_snapshot());
}

TEST(RenumberTables, DropsUnusedElements) {
  Snapshot snapshot;
  snapshot.tables.strings = {"", "unused", "late", "early"};
  snapshot.tables.frames = {{}, {.name = "unused"}, {.name = "a"}, {.name = "b"}};
  snapshot.tables.stacks = {{}, {.frames = {1}}, {.frames = {3, 2}}, {.frames = {2}}};
  snapshot.device_traces.resize(1);
  TraceEntry entry;
  entry.stack = StackId(3);
  entry.user_metadata = StringId(3);
  snapshot.device_traces[0].push_back(entry);
  entry.stack = StackId(2);
  entry.user_metadata = StringId(2);
  snapshot.device_traces[0].push_back(entry);

  renumber_tables(snapshot);

  using ::testing::ElementsAre;
  EXPECT_THAT(snapshot.tables.strings, ElementsAre("", "early", "late"));
  EXPECT_THAT(snapshot.tables.frames, ElementsAre(Frame{}, Frame{.name = "a"}, Frame{.name = "b"}));
  EXPECT_THAT(snapshot.tables.stacks,
              ElementsAre(Stack{}, Stack{.frames = {1}}, Stack{.frames = {2, 1}}));
  EXPECT_EQ(snapshot.device_traces[0][0].stack, StackId(1));
  EXPECT_EQ(snapshot.device_traces[0][1].stack, StackId(2));
  EXPECT_EQ(snapshot.device_traces[0][1].user_metadata, StringId(2));
}

}  // namespace
}  // namespace ashlar
