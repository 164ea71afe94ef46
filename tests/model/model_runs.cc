// SPDX-License-Identifier: Apache-2.0
//
// Runs all seeds, or only the seed in the environment; see model_runs.h.
#include "model_runs.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace ashlar::model {
namespace {

// Returns the single seed to run, if ASHLAR_MODEL_SEED is set.
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

}  // namespace

void expect_agreement(const Length& length, const std::function<Trial(uint64_t seed)>& draw_trial) {
  const std::optional<uint64_t> only = wanted_seed();
  const uint64_t first_seed = only.value_or(length.first_seed);
  const size_t seed_count = only ? 1 : length.seed_count;
  for (uint64_t seed = first_seed; seed - first_seed < seed_count; ++seed) {
    const Trial trial = draw_trial(seed);
    std::cout << "seed " << seed << ": " << trial.setting << std::endl;
    const std::vector<Operation> operations = draw_operations(seed, length.operation_count);
    const auto found = trial.run(operations, length.check_every);
    if (!found) continue;
    std::cout << "at step " << found->step << ": " << found->what << "; shrinking" << std::endl;
    const std::vector<Operation> shortest = shrink(trial, operations);
    const auto again = trial.run(shortest, 1);
    ADD_FAILURE() << "seed " << seed << ", at step " << found->step << ": " << found->what
                  << "\nshrunk to\n"
                  << to_text(shortest) << (again ? again->what : "nothing that fails");
    return;
  }
}

}  // namespace ashlar::model
