// SPDX-License-Identifier: Apache-2.0
//
// Compares find_temporary_frees() with the definition, for random backward passes.
#include "analysis/whatif/backward_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "unit/analysis/whatif/edit_program.h"

namespace ashlar {
namespace {

bool frees_temporary(const ProgramRun& made, uint32_t free) {
  const auto begin_of = [&](uint32_t operation) {
    return made.run.allocations()[made.run.operations()[operation].allocation].begin;
  };
  for (uint32_t i = begin_of(free); i < free; ++i) {
    const Operation& each = made.run.operations()[i];
    const bool is_free = each.action == TraceAction::kFreeRequested;
    if (!is_free && each.action != TraceAction::kAlloc) continue;
    if (!made.paths.is_of_backward(each)) return false;
    if (is_free && begin_of(i) < begin_of(free)) return false;
  }
  return true;
}

TEST(BackwardNodesTest, TemporariesAreNestedInANode) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    TrainingProgram program;
    std::vector<std::pair<uint64_t, size_t>> live;
    program.alloc(64, program.input);
    for (size_t i = 1; i <= 60; ++i) {
      const uint32_t stack = random() % 16 == 0 ? program.input : program.autograd;
      if (live.empty() || random() % 2 == 0) {
        live.emplace_back(program.alloc(i, stack), i);
        continue;
      }
      // Prefers the youngest, so that many lifetimes are nested.
      const size_t back = std::min<size_t>(random() % 3, live.size() - 1);
      const auto freed = live.end() - 1 - static_cast<std::ptrdiff_t>(back);
      program.free(freed->first, freed->second, stack);
      live.erase(freed);
    }
    const ProgramRun made(program);
    const std::vector<bool> found = find_temporary_frees(made.run, made.paths);
    for (uint32_t i = 0; i < made.run.size(); ++i) {
      const Operation& each = made.run.operations()[i];
      const bool is_backward_free =
          each.action == TraceAction::kFreeRequested && made.paths.is_of_backward(each);
      EXPECT_EQ(found[i], is_backward_free && frees_temporary(made, i)) << round << ", " << i;
    }
  }
}

}  // namespace
}  // namespace ashlar
