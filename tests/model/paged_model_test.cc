// Random runs of the paged engine, held against what must be true of any engine and of this one:
// see paged_run.h. Hundreds of thousands of operations in a plain build, fewer where sanitizers
// make each of them slow.
//
// Each run prints its seed and the setting drawn from it first. ASHLAR_MODEL_SEED=17 runs that seed
// alone. A failure ends in a short list of operations that still fails.
#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>

#include "paged_run.h"

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
  bool has_contents = false;
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

std::optional<Disagreement> run_paged(const PagedSetting& setting,
                                      const std::vector<Operation>& operations,
                                      size_t check_every) {
  PagedRun run(setting);
  for (size_t i = 0; i < operations.size(); ++i) {
    run.step(operations[i]);
    if (i % check_every == 0 || i + 1 == operations.size()) run.check_sums();
    if (!run.disagreement().empty()) return Disagreement{i, run.disagreement()};
  }
  return std::nullopt;
}

std::vector<Operation> name_targets(const PagedSetting& setting,
                                    std::vector<Operation> operations) {
  PagedRun run(setting);
  for (size_t i = 0; i < operations.size(); ++i) {
    operations[i].target = run.target_of(operations[i]);
    run.step(operations[i]);
    run.check_sums();
    if (!run.disagreement().empty()) operations.resize(i + 1);
  }
  return operations;
}

void expect_in_order(uint64_t first_seed, Length length) {
  if (const std::optional<uint64_t> only = wanted_seed()) {
    first_seed = *only;
    length.seed_count = 1;
  }
  for (uint64_t seed = first_seed; seed - first_seed < length.seed_count; ++seed) {
    const PagedSetting setting = draw_paged_setting(seed, length.has_contents);
    std::cout << "seed " << seed << ": " << to_text(setting) << std::endl;
    const std::vector<Operation> operations = draw_operations(seed, length.operation_count);
    const auto found = run_paged(setting, operations, length.check_every);
    if (!found) continue;
    const Trial trial{
        [&](std::vector<Operation> all) { return name_targets(setting, std::move(all)); },
        [&](const std::vector<Operation>& some) { return run_paged(setting, some, 1); }};
    const std::vector<Operation> shortest = shrink(trial, operations);
    const auto again = run_paged(setting, shortest, 1);
    ADD_FAILURE() << "seed " << seed << ", at step " << found->step << ": " << found->what
                  << "\nshrunk to\n"
                  << to_text(shortest) << (again ? again->what : "nothing that fails");
    return;
  }
}

TEST(PagedModelTest, EveryStepOfShortRunsIsInOrder) {
  expect_in_order(1, {.seed_count = 60, .operation_count = 1000 / kScale, .check_every = 1});
}

TEST(PagedModelTest, LongRunsAreInOrder) {
  expect_in_order(1001, {.seed_count = 16, .operation_count = 30'000 / kScale, .check_every = 100});
}

TEST(PagedModelTest, WhatWorkWroteIsThereUntilTheBlockIsFreed) {
  expect_in_order(2001, {.seed_count = 10,
                         .operation_count = 1000 / kScale,
                         .check_every = 10,
                         .has_contents = true});
}

}  // namespace
}  // namespace ashlar::model
