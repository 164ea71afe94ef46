// SPDX-License-Identifier: Apache-2.0
//
// Random runs, one for each of many seeds, until one of them disagrees: what the tests of all
// engines have in common.
//
// Each run prints its seed and the setting drawn from it first. ASHLAR_MODEL_SEED=17 runs that seed
// alone, in every length. A failure ends in a short list of operations that still fails.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "classic_run.h"

namespace ashlar::model {

// Runs are so many times shorter where sanitizers make each operation slow.
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

// Whatever runs lists of operations.
struct Trial {
  std::string setting;  // in words
  // Up to the operation that disagrees, each block named by the one that allocated it.
  std::function<std::vector<Operation>(std::vector<Operation>)> name_targets;
  // Each step is compared as it is; sums and invariants at every `check_every`th.
  std::function<std::optional<Disagreement>(const std::vector<Operation>&, size_t check_every)> run;
};

// A shorter list that still disagrees, if everything is compared at every step. REQUIRES: this one
// does.
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
