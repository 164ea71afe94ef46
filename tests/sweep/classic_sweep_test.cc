// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th device call for every n, with every fault. The classic engine must report a clear
// error or succeed, and must not lose memory: all memory can be released afterwards, or after a
// lost device has recovered.
#include <gtest/gtest.h>

#include <vector>

#include "base/units.h"
#include "engine/classic/classic_engine.h"
#include "sweep/sweep.h"

namespace ashlar::classic {
namespace {

class ClassicWorkload final : public sweep::Workload {
 public:
  explicit ClassicWorkload(const sweep::SweepCase& each)
      : Workload(each), engine_(device(), each.options) {}

 private:
  Engine& engine() override { return engine_; }
  Status validate() const override { return engine_.validate(); }

  ClassicEngine engine_;
};

class ClassicSweepTest : public sweep::SweepTest {};

TEST_P(ClassicSweepTest, SurvivesFailureOfEveryCall) {
  expect_no_memory_lost_when_any_call_fails<ClassicWorkload>();
}

AllocatorOptions options_with(bool expandable, bool compatible) {
  AllocatorOptions options;
  options.expandable_segments = expandable;
  options.pytorch_compatible = compatible;
  return options;
}

AllocatorOptions collecting_options() {
  AllocatorOptions options;
  options.memory_fraction = 0.95;
  options.garbage_collection_threshold = 0.2;
  options.max_split_bytes = 20 * kMiB;
  return options;
}

std::vector<sweep::SweepCase> cases() {
  return sweep::combine({{"Plain", options_with(false, false)},
                         {"Compatible", options_with(false, true)},
                         {"Expandable", options_with(true, false)},
                         {"Collecting", collecting_options()}},
                        sweep::single_faults());
}

INSTANTIATE_TEST_SUITE_P(Kinds, ClassicSweepTest, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace ashlar::classic
