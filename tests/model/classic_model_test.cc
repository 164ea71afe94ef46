// SPDX-License-Identifier: Apache-2.0
//
// Random runs of the classic engine against the naive model: same addresses, same device calls,
// same sums. A million operations in a plain build, fewer with sanitizers. See model_runs.h for
// reruns.
#include <gtest/gtest.h>

#include "model_runs.h"
#include "run.h"

namespace ashlar::model {
namespace {

Trial draw(uint64_t seed) { return trial_of<Run>(draw_setting(seed)); }

TEST(ClassicModelTest, ShortRunsAgreeAtEveryStep) {
  expect_agreement(
      {.first_seed = 1, .seed_count = 200, .operation_count = 1000 / kScale, .check_every = 1},
      draw);
}

TEST(ClassicModelTest, LongRunsAgree) {
  expect_agreement(
      {.first_seed = 1001, .seed_count = 16, .operation_count = 50'000 / kScale, .check_every = 50},
      draw);
}

}  // namespace
}  // namespace ashlar::model
