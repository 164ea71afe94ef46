// Random runs of the classic engine against the naive model: the same address for every block, the
// same calls to the device, the same sums. A million operations in a plain build, fewer where
// sanitizers make each of them slow.
//
// Each run prints its seed and the setting drawn from it first. ASHLAR_MODEL_SEED=17 runs that seed
// alone, in both lengths. A failure ends in a short list of operations that still fails.
#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>

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

// The seed to run alone, if there is one.
std::optional<uint64_t> wanted_seed() {
  const char* given = std::getenv("ASHLAR_MODEL_SEED");  // NOLINT(concurrency-mt-unsafe)
  if (given == nullptr || *given == '\0') return std::nullopt;
  const std::string_view digits = given;
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), seed);
  EXPECT_TRUE(error == std::errc() && end == digits.end())
      << "ASHLAR_MODEL_SEED: " << digits << " is not a seed (expected a whole number of 64 bits)";
  return seed;
}

void expect_agreement(uint64_t first_seed, Length length) {
  if (const std::optional<uint64_t> only = wanted_seed()) {
    first_seed = *only;
    length.seed_count = 1;
  }
  for (uint64_t seed = first_seed; seed - first_seed < length.seed_count; ++seed) {
    const Setting setting = draw_setting(seed);
    std::cout << "seed " << seed << ": " << to_text(setting) << std::endl;
    const std::vector<Operation> operations = draw_operations(seed, length.operation_count);
    const auto found = run(setting, operations, length.check_every);
    if (!found) continue;
    const std::vector<Operation> shortest = shrink(setting, operations);
    const auto again = run(setting, shortest, 1);
    ADD_FAILURE() << "seed " << seed << ", at step " << found->step << ": " << found->what
                  << "\nshrunk to\n"
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
