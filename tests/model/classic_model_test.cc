// SPDX-License-Identifier: Apache-2.0
//
// Random runs of the classic engine and the naive model, which must agree in addresses, device
// calls and statistics. A plain build runs a million operations, a build with invariant checks
// fewer. model_runs.h describes how to repeat a run.
#include <gtest/gtest.h>

#include "classic_run.h"
#include "model_runs.h"

namespace ashlar::model {
namespace {

Trial draw_trial(uint64_t seed) { return make_trial<ClassicRun>(draw_classic_setting(seed)); }

TEST(ClassicModelTest, ShortRunsAgreeAtEveryStep) {
  expect_agreement(
      {.first_seed = 1, .seed_count = 200, .operation_count = 1000 / kScale, .check_every = 1},
      draw_trial);
}

TEST(ClassicModelTest, LongRunsAgree) {
  expect_agreement(
      {.first_seed = 1001, .seed_count = 16, .operation_count = 50'000 / kScale, .check_every = 50},
      draw_trial);
}

}  // namespace
}  // namespace ashlar::model
