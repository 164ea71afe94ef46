// SPDX-License-Identifier: Apache-2.0
//
// Random runs with many seeds until one disagrees; shared by the tests of all engines.
//
// Each run first prints its seed and the drawn setting. ASHLAR_MODEL_SEED=17 runs only that seed,
// in every length. A failure ends with a short list of operations that still fails.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "classic_run.h"

namespace ashlar::model {

// Runs are shorter where sanitizers slow down each operation.
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

// Runs lists of operations.
struct Trial {
  std::string setting;  // formatted
  // Up to the operation that disagrees, with explicit target blocks.
  std::function<std::vector<Operation>(std::vector<Operation>)> name_targets;
  // Compares each step; sums and invariants every `check_every` steps.
  std::function<std::optional<Disagreement>(const std::vector<Operation>&, size_t check_every)> run;
};

// A shorter list that still disagrees when everything is compared at every step. REQUIRES:
// `operations` does.
std::vector<Operation> shrink(const Trial& trial, std::vector<Operation> operations);

void expect_agreement(const Length& length, const std::function<Trial(uint64_t seed)>& draw);

template <typename EngineRun, typename EngineSetting>
Trial trial_of(const EngineSetting& setting) {
  auto name_targets = [setting](std::vector<Operation> operations) {
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
  return {to_text(setting), std::move(name_targets), std::move(run_all)};
}

}  // namespace ashlar::model
