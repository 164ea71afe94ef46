// SPDX-License-Identifier: Apache-2.0
//
// Performs random runs with many seeds, and stops at the first run in which the engine disagrees
// with the expectation. Shared by the tests of all engines.
//
// Each run first prints its seed and the drawn setting. With ASHLAR_MODEL_SEED=17, every test runs
// only seed 17. After a failure, the test prints a short list of operations that still fails.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operations.h"

namespace ashlar::model {

// The divisor of the lengths of runs. It is larger in builds with invariant checks or with gcc's
// ThreadSanitizer, which slow down each operation.
#if defined(ASHLAR_INVARIANTS) || defined(__SANITIZE_THREAD__)
constexpr size_t kScale = 20;
#else
constexpr size_t kScale = 1;
#endif

struct Length {
  uint64_t first_seed;
  size_t seed_count;
  size_t operation_count;
  size_t check_every;
};

// A setting, and functions that run lists of operations on an engine with this setting.
struct Trial {
  std::string setting;  // formatted
  // Sets the target of each operation, and removes the operations after the first disagreement.
  std::function<std::vector<Operation>(std::vector<Operation>)> set_targets;
  // Runs the operations until the engine disagrees with the expectation. Compares results after
  // each step, and statistics and invariants every `check_every` steps.
  std::function<std::optional<Disagreement>(const std::vector<Operation>&, size_t check_every)> run;
};

// Removes operations as long as the remaining list still causes a disagreement. REQUIRES:
// `operations` causes a disagreement if statistics are compared at every step.
std::vector<Operation> shrink(const Trial& trial, std::vector<Operation> operations);

// Runs all seeds of `length`, or only the seed in ASHLAR_MODEL_SEED. After the first disagreement,
// stops and prints a shrunk list of operations.
void expect_agreement(const Length& length, const std::function<Trial(uint64_t seed)>& draw_trial);

template <typename EngineRun, typename EngineSetting>
Trial make_trial(const EngineSetting& setting) {
  auto set_targets = [setting](std::vector<Operation> operations) {
    EngineRun run(setting);
    for (size_t i = 0; i < operations.size(); ++i) {
      operations[i].target = run.target_of(operations[i]);
      run.step(operations[i]);
      run.check_sums();
      if (!run.disagreement().empty()) operations.resize(i + 1);
    }
    return operations;
  };
  auto run_all = [setting](const std::vector<Operation>& operations,
                           size_t check_every) -> std::optional<Disagreement> {
    EngineRun run(setting);
    for (size_t i = 0; i < operations.size(); ++i) {
      run.step(operations[i]);
      if (i % check_every == 0 || i + 1 == operations.size()) run.check_sums();
      if (!run.disagreement().empty()) return Disagreement{i, run.disagreement()};
    }
    return std::nullopt;
  };
  return {to_text(setting), std::move(set_targets), std::move(run_all)};
}

}  // namespace ashlar::model
