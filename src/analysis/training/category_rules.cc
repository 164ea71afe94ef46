// SPDX-License-Identifier: Apache-2.0
//
// The names of categories, and the category and description of each rule.
#include "analysis/training/categories.h"

namespace ashlar {
namespace {

struct RuleText {
  Category category;
  const char* text;
};

RuleText text_of(CategoryRule rule) {
  switch (rule) {
    case CategoryRule::kModuleSetup:
      return {Category::kParameters, "allocated when a module was created, loaded or moved; kept"};
    case CategoryRule::kKeptWithGradientSize:
      return {Category::kParameters, "kept since before the first pass; as large as a gradient"};
    case CategoryRule::kOlderWithParameterSize:
      return {Category::kParameters, "older than the recording; as large as gradients or state"};
    case CategoryRule::kOlderGradientCopy:
      return {Category::kGradients, "older than the recording; a copy of all parameters"};
    case CategoryRule::kResultWithParameterSize:
      return {Category::kGradients, "kept after the backward pass; as large as a parameter"};
    case CategoryRule::kFreedByZeroGrad:
      return {Category::kGradients, "allocated in the backward pass, freed by zero_grad or step"};
    case CategoryRule::kKeptByOptimizerStep:
      return {Category::kOptimizerState, "allocated in Optimizer.step and kept"};
    case CategoryRule::kOptimizerSetup:
      return {Category::kOptimizerState, "allocated when an optimizer was created or loaded"};
    case CategoryRule::kOlderStateCopy:
      return {Category::kOptimizerState, "older than the recording; a copy of all parameters"};
    case CategoryRule::kOlderReplacedState:
      return {Category::kOptimizerState, "older than the recording; replaced in Optimizer.step"};
    case CategoryRule::kFreedByBackward:
      return {Category::kActivations, "allocated in the forward pass, freed in the backward pass"};
    case CategoryRule::kHeldDuringBackward:
      return {Category::kActivations, "allocated in the forward pass, still live after it"};
    case CategoryRule::kLiveAtFailure:
      return {Category::kActivations, "live when an allocation of the forward pass failed"};
    case CategoryRule::kRecomputed:
      return {Category::kActivations, "recomputed in the backward pass (checkpointing)"};
    case CategoryRule::kBeforeFirstModuleCall:
      return {Category::kInputs, "allocated before the first module is called"};
    case CategoryRule::kKeptSinceSetup:
      return {Category::kInputs, "allocated before the first forward pass, outside modules; kept"};
    case CategoryRule::kFreedInForward:
      return {Category::kForwardTemporaries, "allocated and freed in the forward pass"};
    case CategoryRule::kFreedInSetup:
      return {Category::kForwardTemporaries, "allocated and freed outside of passes"};
    case CategoryRule::kFreedInBackward:
      return {Category::kBackwardTemporaries, "allocated and freed in the backward pass"};
    case CategoryRule::kInBackwardCall:
      return {Category::kBackwardTemporaries, "allocated by the call of backward()"};
    case CategoryRule::kNotKeptByOptimizerStep:
      return {Category::kOptimizerTemporaries, "allocated in the optimizer step and not kept"};
    case CategoryRule::kFreedAfterBackward:
      return {Category::kBackwardTemporaries, "allocated in the backward pass, freed after it"};
    case CategoryRule::kWorkspaceFunction:
      return {Category::kWorkspaces, "allocated by a native workspace function"};
    case CategoryRule::kKeptWithWorkspaceSize:
      return {Category::kWorkspaces, "kept; as large as a workspace of cuBLAS"};
    case CategoryRule::kKeptByLibrary:
      return {Category::kWorkspaces, "allocated once by library code and kept"};
    case CategoryRule::kCommunication:
      return {Category::kWorkspaces, "allocated for communication and kept"};
    case CategoryRule::kKeptByProgram:
      return {Category::kKept, "allocated in an iteration and kept beyond it"};
    case CategoryRule::kNoRule: break;
  }
  return {Category::kUnknown, "no rule applies"};
}

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
