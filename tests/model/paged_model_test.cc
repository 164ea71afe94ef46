// SPDX-License-Identifier: Apache-2.0
//
// Random runs of the paged engine that check the invariants in paged_run.h. A plain build runs
// hundreds of thousands of operations, a build with invariant checks fewer. model_runs.h describes
// how to repeat a run.
#include <gtest/gtest.h>

#include "model_runs.h"
#include "paged_run.h"

namespace ashlar::model {
namespace {

Trial draw_accounting_trial(uint64_t seed) {
  return make_trial<PagedRun>(draw_paged_setting(seed, /*has_contents=*/false));
}
Trial draw_contents_trial(uint64_t seed) {
  return make_trial<PagedRun>(draw_paged_setting(seed, /*has_contents=*/true));
}

TEST(PagedModelTest, ShortRunsAreValidAtEveryStep) {
  expect_agreement(
      {.first_seed = 1, .seed_count = 60, .operation_count = 1000 / kScale, .check_every = 1},
      draw_accounting_trial);
}

TEST(PagedModelTest, LongRunsAreValid) {
  expect_agreement({.first_seed = 1001,
                    .seed_count = 16,
                    .operation_count = 30'000 / kScale,
                    .check_every = 100},
                   draw_accounting_trial);
}

TEST(PagedModelTest, KeepsContentsUntilFree) {
  expect_agreement(
      {.first_seed = 2001, .seed_count = 10, .operation_count = 1000 / kScale, .check_every = 10},
      draw_contents_trial);
}

}  // namespace
}  // namespace ashlar::model
