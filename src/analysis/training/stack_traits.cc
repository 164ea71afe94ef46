// SPDX-License-Identifier: Apache-2.0
//
// Classifies each frame once, then combines the properties of a stack's frames.
#include "analysis/training/stack_traits.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "analysis/frame_kind.h"

namespace ashlar {
namespace {

enum FrameProperty : uint32_t {
  kPython = 1U << 0U,
  kPythonEntry = 1U << 1U,  // where Python code begins: <module>, runpy, _bootstrap of threading
  kEngine = 1U << 2U,
  kBackwardFunction = 1U << 3U,
  kStepFunction = 1U << 4U,
  kZeroGradFunction = 1U << 5U,
  kModuleCall = 1U << 6U,
  kModuleSetup = 1U << 7U,
  kOptimizerSetup = 1U << 8U,
  kCheckpoint = 1U << 9U,
  kWorkspace = 1U << 10U,
  kCommunication = 1U << 11U,
  kClosure = 1U << 12U,
  kUserCode = 1U << 13U,
  kOptimizerBase = 1U << 14U,  // torch/optim/optimizer.py
  // In user code, a path like "optim/" counts only if the stack also has kOptimizerBase.
  kUserStepFunction = 1U << 15U,
  kUserOptimizerSetup = 1U << 16U,
  kReplication = 1U << 17U,  // copies parameters to other devices
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

// Returns whether a path contains a part; '/' in the part matches both kinds of separators.
bool has_path(std::string_view path, std::string_view part) {
  return std::search(path.begin(), path.end(), part.begin(), part.end(), [](char a, char b) {
           return a == b || (a == '\\' && b == '/');
         }) != path.end();
}

// Returns the qualified name of a native function without template arguments and parameters.
std::string plain_name(const Frame& frame) {
  std::string plain;
  size_t depth = 0;  // of template arguments
  for (const char c : function_name(frame.name)) {
    if (c == '<') ++depth;
    if (depth == 0) plain += c;
    if (c == '>' && depth > 0) --depth;
  }
  return plain;
}

uint32_t native_properties(const Frame& frame) {
  uint32_t found = 0;
  if (contains(frame.name, "autograd::Engine::thread_main") ||
      contains(frame.name, "autograd::Engine::evaluate_function")) {
    found |= kEngine;
  }
  if (contains(plain_name(frame), "orkspace")) found |= kWorkspace;
  if (contains(frame.name, "c10d::")) found |= kCommunication;
  return found;
}

uint32_t optimizer_properties(std::string_view name, std::string_view file) {
  const bool is_base = has_path(file, "torch/optim/optimizer.py");
  const bool is_optimizer = has_path(file, "/optim/") || has_path(file, "/optimizers/") ||
                            has_path(file, "megatron/core/optimizer/");
  if (!is_optimizer || contains(file, "lr_scheduler") || contains(file, "swa_utils")) return 0;
  const uint32_t base = is_base ? kOptimizerBase : 0U;
  if (name == "step" || (is_base && is_one_of(name, {"wrapper", "profile_hook_step"}))) {
    return base | kStepFunction;
  }
  const bool is_setup = is_one_of(name, {"__init__", "load_state_dict", "__setstate__"});
  return is_setup ? base | kOptimizerSetup : base;
}

uint32_t module_properties(std::string_view name, std::string_view file) {
  if (has_path(file, "torch/nn/modules/module.py")) {
    if (is_one_of(name, {"_call_impl", "_wrapped_call_impl", "__call__"})) return kModuleCall;
    if (is_one_of(name, {"_apply", "_load_from_state_dict", "load_state_dict"})) {
      return kModuleSetup;
    }
    return 0;
  }
  if (has_path(file, "torch/_inductor/") || has_path(file, "torch/_functorch/")) {
    return kModuleCall;
  }
  if (has_path(file, "torch/nn/parameter.py")) return kModuleSetup;
  if (has_path(file, "torch/nn/modules/") && is_one_of(name, {"__init__", "reset_parameters"})) {
    return kModuleSetup;
  }
  // Loaders that place weights without a call of Module.to().
  if (has_path(file, "transformers/modeling_utils.py") ||
      has_path(file, "accelerate/utils/modeling.py")) {
    return kModuleSetup;
  }
  if (name == "create_weights" && has_path(file, "/model_executor/")) return kModuleSetup;  // vLLM
  return 0;
}

uint32_t python_properties(const Frame& frame) {
  const std::string_view name = frame.name;
  const std::string_view file = frame.filename;
  uint32_t found = kPython | optimizer_properties(name, file) | module_properties(name, file);
  if (is_one_of(name, {"<module>", "_bootstrap", "_run_module_as_main", "_run_code"})) {
    found |= kPythonEntry;
  }
  if (is_one_of(name, {"backward", "grad"}) &&
      (has_path(file, "torch/_tensor.py") || has_path(file, "torch/autograd/__init__.py"))) {
    found |= kBackwardFunction;
  }
  if (name == "zero_grad") found |= kZeroGradFunction;
  if (has_path(file, "torch/utils/checkpoint.py")) found |= kCheckpoint;
  if (has_path(file, "torch/nn/parallel/distributed.py") || has_path(file, "torch/distributed/")) {
    found |= kCommunication;
  }
  if (has_path(file, "torch/nn/parallel/replicate.py")) found |= kReplication;
  if (contains(name, "closure")) found |= kClosure;
  if (contains(name, "allocate_kv_cache")) found |= kWorkspace;
  return found;
}

// Adjusts the properties of a frame of user code. A user's folder "optim" may contain a whole
// program, and a user's function with "workspace" in its name allocates no library workspace.
uint32_t as_user_code(uint32_t properties) {
  uint32_t found = kUserCode | (properties & ~(kStepFunction | kOptimizerSetup | kWorkspace));
  if ((properties & kStepFunction) != 0) found |= kUserStepFunction;
  if ((properties & kOptimizerSetup) != 0) found |= kUserOptimizerSetup;
  return found;
}

// Properties of the recording as a whole.
struct RecordedStacks {
  bool have_python = false;
  bool have_native = false;
  bool have_program_entry = false;
  bool on_frees = false;
};

// The properties of one stack.
struct CombinedProperties {
  uint32_t any = 0;  // of any frame
  uint32_t innermost_python = 0;
};

CallSite site_of(uint32_t any, const RecordedStacks& recorded) {
  if ((any & kEngine) != 0) return CallSite::kAutograd;
  // Python code outside every Python entry point: the autograd thread calls a hook or recomputes a
  // forward pass.
  if ((any & kPython) != 0 && (any & kPythonEntry) == 0 && recorded.have_program_entry) {
    return CallSite::kAutograd;
  }
  if ((any & kZeroGradFunction) != 0) return CallSite::kZeroGrad;
  if ((any & kBackwardFunction) != 0) return CallSite::kBackwardCall;
  // A closure runs forward and backward passes inside step().
  if ((any & kStepFunction) != 0 && (any & (kClosure | kModuleCall)) == 0) {
    return CallSite::kOptimizer;
  }
  return CallSite::kOther;
}

StackTraits traits_of(CombinedProperties stack, const RecordedStacks& recorded) {
  if ((stack.any & kOptimizerBase) != 0) {
    if ((stack.any & kUserStepFunction) != 0) stack.any |= kStepFunction;
    if ((stack.any & kUserOptimizerSetup) != 0) stack.any |= kOptimizerSetup;
  }
  StackTraits traits;
  traits.alloc_site = traits.free_site = site_of(stack.any, recorded);
  traits.has_python = (stack.any & kPython) != 0;
  traits.in_module_call = (stack.any & kModuleCall) != 0;
  traits.in_module_setup = (stack.any & kModuleSetup) != 0;
  traits.in_replication = (stack.any & kReplication) != 0;
  traits.in_optimizer_setup = (stack.any & kOptimizerSetup) != 0;
  traits.in_recomputation = (stack.any & (kCheckpoint | kBackwardFunction)) == kCheckpoint;
  traits.in_workspace_function = (stack.any & kWorkspace) != 0;
  traits.in_communication = (stack.any & kCommunication) != 0;
  traits.innermost_is_library = (stack.innermost_python & (kPython | kUserCode)) == kPython;
  return traits;
}

bool has_stacks_of_frees(const Snapshot& snapshot) {
  const auto is_free_with_stack = [](const TraceEntry& entry) {
    return entry.action == TraceAction::kFreeRequested && entry.stack != StackId();
  };
  return std::any_of(snapshot.device_traces.begin(), snapshot.device_traces.end(),
                     [&](const std::vector<TraceEntry>& trace) {
                       return std::any_of(trace.begin(), trace.end(), is_free_with_stack);
                     });
}

}  // namespace

StackTraitsTable::StackTraitsTable(const Snapshot& snapshot, FreeStacks free_stacks)
    : tables_(&snapshot.tables) {
  const SnapshotTables& tables = snapshot.tables;
  // An ordered map, because a crafted file could cause hash collisions.
  std::map<std::tuple<std::string_view, std::string_view, int64_t>, uint32_t> frame_numbers;
  const FrameClassifier classifier(tables);
  for (const Frame& frame : tables.frames) {
    const bool is_python = classifier.is_python(frame) || frame.name == "<module>";
    uint32_t properties = is_python ? python_properties(frame) : native_properties(frame);
    if (classifier.kind(frame) == FrameKind::kUser) properties = as_user_code(properties);
    properties_.push_back(properties);
    const auto number = static_cast<uint32_t>(first_equal_.size());
    first_equal_.push_back(
        frame_numbers.try_emplace({frame.name, frame.filename, frame.line}, number).first->second);
  }

  RecordedStacks recorded = {.on_frees = has_stacks_of_frees(snapshot)};
  std::vector<CombinedProperties> stacks(std::max<size_t>(tables.stacks.size(), 1));
  for (size_t i = 0; i < tables.stacks.size(); ++i) {
    for (const uint32_t frame : tables.stacks[i].frames) {
      if (frame >= properties_.size()) continue;
      const uint32_t properties = properties_[frame];
      if ((stacks[i].any & kPython) == 0) stacks[i].innermost_python = properties;
      stacks[i].any |= properties;
      ((properties & kPython) != 0 ? recorded.have_python : recorded.have_native) = true;
      if ((properties & kPythonEntry) != 0) recorded.have_program_entry = true;
    }
  }

  has_stacks_ = recorded.have_python || recorded.have_native;
  for (const CombinedProperties& stack : stacks) traits_.push_back(traits_of(stack, recorded));
  // If only Python frames were recorded, the stacks of an autograd thread are empty, because it
  // runs no Python code.
  const bool is_python_only = recorded.have_python && !recorded.have_native;
  for (size_t i = 0; i < traits_.size(); ++i) {
    if (i < tables.stacks.size() && !tables.stacks[i].frames.empty()) continue;
    traits_[i] = {};
    if (is_python_only) traits_[i].alloc_site = CallSite::kAutograd;
    if (is_python_only && recorded.on_frees) traits_[i].free_site = CallSite::kAutograd;
  }
  if (free_stacks == FreeStacks::kOfFree) return;
  for (StackTraits& each : traits_) each.free_site = CallSite::kUnknown;
}

std::vector<uint32_t> StackTraitsTable::call_path(StackId stack) const {
  if (stack.value() >= tables_->stacks.size()) return {};
  std::vector<uint32_t> all;
  std::vector<uint32_t> python;
  for (const uint32_t frame : tables_->stacks[stack.value()].frames) {
    if (frame >= first_equal_.size()) continue;
    all.push_back(first_equal_[frame]);
    if ((properties_[frame] & kPython) != 0) python.push_back(first_equal_[frame]);
  }
  std::vector<uint32_t>& path = python.empty() ? all : python;
  std::reverse(path.begin(), path.end());
  return std::move(path);
}

std::vector<uint32_t> StackTraitsTable::path_to_module(StackId stack) const {
  std::vector<uint32_t> path = call_path(stack);
  const auto call = std::find_if(path.begin(), path.end(), [this](uint32_t frame) {
    return (properties_[frame] & kModuleCall) != 0;
  });
  path.erase(call, path.end());
  return path;
}

}  // namespace ashlar
