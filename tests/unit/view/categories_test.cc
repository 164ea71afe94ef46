// SPDX-License-Identifier: Apache-2.0
//
// Tests the categories in the responses of the viewer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "analysis/training/categories.h"
#include "unit/analysis/training/training_program.h"
#include "unit/view/analysis_stub.h"
#include "unit/view/columns_reader.h"
#include "unit/view/random_run.h"
#include "view/viewer.h"

namespace ashlar::view {
namespace {

using nlohmann::json;

class ViewerCategoriesTest : public ::testing::Test {
 protected:
  void add(Snapshot snapshot) {
    ASSERT_TRUE(viewer_.add(Recording::create("run", std::move(snapshot))).ok());
  }
  http::Response respond(const std::string& request) const {
    const size_t mark = std::min(request.find('?'), request.size());
    return viewer_.respond(request.substr(0, mark),
                           request.substr(std::min(mark + 1, request.size())));
  }

  Viewer viewer_{"ashlar", fixed_causes("{}")};
};

TEST_F(ViewerCategoriesTest, SplitsBytesOfStacksByCategory) {
  add(random_snapshot({.seed = 1, .entry_count = 800}));
  const ColumnsReader found(respond("d/0/stacks?at=500").body);
  const auto stacks = found.column<uint32_t>("stack");
  std::map<uint32_t, std::pair<double, uint32_t>> sums;
  const auto split = found.column<uint32_t>("split_stack");
  for (size_t row = 0; row < split.size(); ++row) {
    sums[split[row]].first += found.column<double>("split_bytes")[row];
    sums[split[row]].second += found.column<uint32_t>("split_count")[row];
  }
  ASSERT_EQ(sums.size(), stacks.size());
  for (size_t row = 0; row < stacks.size(); ++row) {
    EXPECT_EQ(sums[stacks[row]].first, found.column<double>("bytes")[row]);
    EXPECT_EQ(sums[stacks[row]].second, found.column<uint32_t>("count")[row]);
  }
}

TEST_F(ViewerCategoriesTest, ResponsesHaveCategoryOfEachAllocation) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 3; ++i) program.iteration();
  add(std::move(program.trace.snapshot()));
  const json scene = json::parse(respond("scene.json").body);
  const json& document = scene["documents"][0];
  ASSERT_EQ(document["categories"].size(), kCategoryCount);
  EXPECT_EQ(document["categories"][3], "activations");
  EXPECT_EQ(document["phases"], true);
  const std::string rows = "d/0/allocations?sort=made&order=up&from=0&count=99&at=all&search=";
  const ColumnsReader all(respond(rows).body);
  EXPECT_EQ(all.column<uint8_t>("category")[0], static_cast<uint8_t>(Category::kParameters));
  const ColumnsReader activations(respond(rows + "&category=3").body);
  EXPECT_EQ(activations.column<double>("bytes"), (std::vector<double>{5000, 5000, 5000}));
  EXPECT_EQ(activations.column<uint8_t>("category"), (std::vector<uint8_t>{3, 3, 3}));
  EXPECT_EQ(activations.column<double>("total"), (std::vector<double>{3}));
  const ColumnsReader map(respond("d/0/map?at=0").body);
  const auto categories = map.column<uint8_t>("block_category");
  ASSERT_EQ(categories.size(), map.column<double>("block_bytes").size());
  EXPECT_EQ(categories[0], static_cast<uint8_t>(Category::kParameters));
  const ColumnsReader tile(respond("d/0/tile?by=category&level=0&index=0&detail=0").body);
  EXPECT_THAT(tile.column<uint32_t>("group"), testing::Contains(3U));
}

}  // namespace
}  // namespace ashlar::view
