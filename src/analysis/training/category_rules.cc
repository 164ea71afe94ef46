// SPDX-License-Identifier: Apache-2.0
//
// The names of categories, and the category and description of each rule.
#include "analysis/training/categories.h"

#include <iterator>

namespace ashlar {
namespace {

struct RuleText {
  CategoryRule rule;
  Category category;
  const char* text;
};

// In the order of CategoryRule.
constexpr RuleText kRules[] = {
    {CategoryRule::kModuleSetup, Category::kParameters,
     "allocated when a module was created, loaded or moved; kept"},
    {CategoryRule::kReplica, Category::kParameters,
     "copied from another device for one pass (DataParallel)"},
    {CategoryRule::kKeptWithGradientSize, Category::kParameters,
     "kept since before the first pass; as large as a gradient"},
    {CategoryRule::kOlderWithParameterSize, Category::kParameters,
     "older than the recording; as large as gradients or state"},
    {CategoryRule::kResultWithParameterSize, Category::kGradients,
     "kept after the backward pass; as large as a parameter"},
    {CategoryRule::kFreedByZeroGrad, Category::kGradients,
     "allocated in the backward pass, freed by zero_grad or step"},
    {CategoryRule::kOlderGradientCopy, Category::kGradients,
     "older than the recording; a copy of all parameters"},
    {CategoryRule::kKeptByOptimizerStep, Category::kOptimizerState,
     "allocated in Optimizer.step and kept"},
    {CategoryRule::kOptimizerSetup, Category::kOptimizerState,
     "allocated when an optimizer was created or loaded"},
    {CategoryRule::kOlderStateCopy, Category::kOptimizerState,
     "older than the recording; a copy of all parameters"},
    {CategoryRule::kOlderReplacedState, Category::kOptimizerState,
     "older than the recording; replaced in Optimizer.step"},
    {CategoryRule::kFreedByBackward, Category::kActivations,
     "allocated in the forward pass, freed in the backward pass"},
    {CategoryRule::kHeldDuringBackward, Category::kActivations,
     "allocated in the forward pass, still live after it"},
    {CategoryRule::kLiveAtFailure, Category::kActivations,
     "live when an allocation of the forward pass failed"},
    {CategoryRule::kOlderInModuleCall, Category::kActivations,
     "allocated in a forward pass before the recording"},
    {CategoryRule::kRecomputed, Category::kActivations,
     "recomputed in the backward pass (checkpointing)"},
    {CategoryRule::kBeforeFirstModuleCall, Category::kInputs,
     "allocated before the first module is called"},
    {CategoryRule::kKeptSinceSetup, Category::kInputs,
     "allocated before the first forward pass, outside modules; kept"},
    {CategoryRule::kFreedInForward, Category::kForwardTemporaries,
     "allocated and freed in the forward pass"},
    {CategoryRule::kFreedInSetup, Category::kForwardTemporaries,
     "allocated and freed outside of passes"},
    {CategoryRule::kFreedInBackward, Category::kBackwardTemporaries,
     "allocated and freed in the backward pass"},
    {CategoryRule::kInBackwardCall, Category::kBackwardTemporaries,
     "allocated by the call of backward()"},
    {CategoryRule::kNotKeptByOptimizerStep, Category::kOptimizerTemporaries,
     "allocated in the optimizer step and not kept"},
    {CategoryRule::kFreedAfterBackward, Category::kBackwardTemporaries,
     "allocated in the backward pass, freed after it"},
    {CategoryRule::kWorkspaceFunction, Category::kWorkspaces,
     "allocated by a library's function for workspaces or KV caches"},
    {CategoryRule::kKeptWithWorkspaceSize, Category::kWorkspaces,
     "kept; as large as a workspace of cuBLAS"},
    {CategoryRule::kKeptByLibrary, Category::kWorkspaces,
     "allocated once by library code and kept"},
    {CategoryRule::kCommunication, Category::kWorkspaces, "allocated for communication and kept"},
    {CategoryRule::kKeptByProgram, Category::kKept, "allocated in an iteration and kept beyond it"},
    {CategoryRule::kOlderThanRecording, Category::kUnknown, "older than the recording"},
    {CategoryRule::kWithoutHistory, Category::kUnknown, "lifetimes are unknown without a history"},
    {CategoryRule::kNoRule, Category::kUnknown, "no rule applies"},
};

constexpr bool is_in_order() {
  for (size_t i = 0; i < std::size(kRules); ++i) {
    if (kRules[i].rule != static_cast<CategoryRule>(i)) return false;
  }
  return std::size(kRules) == static_cast<size_t>(CategoryRule::kNoRule) + 1;
}
static_assert(is_in_order());

const RuleText& text_of(CategoryRule rule) { return kRules[static_cast<size_t>(rule)]; }

}  // namespace

const char* name(Category category) {
  switch (category) {
    case Category::kParameters: return "parameters";
    case Category::kGradients: return "gradients";
    case Category::kOptimizerState: return "optimizer state";
    case Category::kActivations: return "activations";
    case Category::kInputs: return "inputs";
    case Category::kForwardTemporaries: return "forward temporaries";
    case Category::kBackwardTemporaries: return "backward temporaries";
    case Category::kOptimizerTemporaries: return "optimizer temporaries";
    case Category::kWorkspaces: return "library workspaces";
    case Category::kKept: return "kept results";
    case Category::kUnknown: break;
  }
  return "unknown";
}

Category category_of(CategoryRule rule) { return text_of(rule).category; }
const char* describe(CategoryRule rule) { return text_of(rule).text; }

}  // namespace ashlar
