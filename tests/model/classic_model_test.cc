// Random runs of the classic engine against the naive model: the same address for every block, the
// same calls to the device, the same sums. A million operations in a plain build, fewer where
// sanitizers make each of them slow.
#include <gtest/gtest.h>

#include <iostream>

#include "classic_run.h"

namespace ashlar::model {
namespace {

#if defined(ASHLAR_INVARIANTS) || defined(__SANITIZE_THREAD__)
constexpr size_t kScale = 20;
#else
constexpr size_t kScale = 1;
#endif

struct Length {
  size_t seed_count;
  size_t operation_count;
  size_t check_every;
};

void expect_agreement(uint64_t first_seed, const Length& length) {
  for (uint64_t seed = first_seed; seed < first_seed + length.seed_count; ++seed) {
    const Setting setting = draw_setting(seed);
    std::cout << "seed " << seed << ": " << to_text(setting) << std::endl;
    const std::vector<Operation> operations = draw_operations(seed, length.operation_count);
    const auto found = run(setting, operations, length.check_every);
    if (!found) continue;
    const std::vector<Operation> shortest = shrink(setting, operations);
    const auto again = run(setting, shortest, 1);
    ADD_FAILURE() << "at step " << found->step << ": " << found->what << "\nshrunk to\n"
                  << to_text(shortest) << (again ? again->what : "nothing that fails");
    return;
  }
}

TEST(ClassicModelTest, ShortRunsAgreeAndEveryStepIsValid) {
  expect_agreement(1, {.seed_count = 200, .operation_count = 1000 / kScale, .check_every = 1});
}

TEST(ClassicModelTest, LongRunsAgree) {
  expect_agreement(1001, {.seed_count = 16, .operation_count = 50'000 / kScale, .check_every = 50});
}

}  // namespace
}  // namespace ashlar::model
