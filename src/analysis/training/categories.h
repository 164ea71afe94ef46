// SPDX-License-Identifier: Apache-2.0
//
// The purpose of each allocation of a training or inference program: parameters, gradients,
// activations and so on, with the rule that assigned it. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/training/iterations.h"
#include "analysis/training/stack_traits.h"
#include "ashlar/snapshot.h"

namespace ashlar {

enum class Category : uint8_t {
  kParameters,  // and the buffers of modules
  kGradients,
  kOptimizerState,
  kActivations,
  kInputs,
  kForwardTemporaries,
  kBackwardTemporaries,
  kOptimizerTemporaries,
  kWorkspaces,  // of libraries such as cuBLAS
  kKept,        // results that the program keeps beyond the iteration that allocated them
  kUnknown,
};
inline constexpr size_t kCategoryCount = 11;

// Why an allocation belongs to its category. Each rule assigns one category.
enum class CategoryRule : uint8_t {
  kModuleSetup,
  kReplica,
  kKeptWithGradientSize,
  kOlderWithParameterSize,
  kResultWithParameterSize,
  kFreedByZeroGrad,
  kOlderGradientCopy,
  kKeptByOptimizerStep,
  kOptimizerSetup,
  kOlderStateCopy,
  kOlderReplacedState,
  kFreedByBackward,
  kHeldDuringBackward,
  kLiveAtFailure,
  kOlderInModuleCall,
  kRecomputed,
  kBeforeFirstModuleCall,
  kKeptSinceSetup,
  kFreedInForward,
  kFreedInSetup,
  kFreedInBackward,
  kInBackwardCall,
  kNotKeptByOptimizerStep,
  kFreedAfterBackward,
  kWorkspaceFunction,
  kKeptWithWorkspaceSize,
  kKeptByLibrary,
  kCommunication,
  kKeptByProgram,
  kOlderThanRecording,
  kWithoutHistory,
  kNoRule,
};

// Returns a name for reports: "parameters", "optimizer state".
const char* name(Category category);
Category category_of(CategoryRule rule);
// Returns the rule in words, such as "allocated in the forward pass, freed in the backward pass".
const char* describe(CategoryRule rule);

using CategoryBytes = std::array<size_t, kCategoryCount>;  // indexed by Category

struct Categories {
  std::vector<CategoryRule> rules{};  // for each allocation of Allocations::all
  CategoryBytes peak_bytes{};         // for each category: its requested bytes at its own peak

  Category of(uint32_t allocation) const { return category_of(rules[allocation]); }
};

// REQUIRES: the allocations, traits and iterations belong to this snapshot and device.
Categories find_categories(const Snapshot& snapshot, DeviceIndex device,
                           const Allocations& allocations, const StackTraitsTable& traits,
                           const Iterations& iterations);

// Returns the requested bytes of each category after an entry, including pending frees. If `entry`
// is unset, the moment is before the first entry.
CategoryBytes bytes_by_category(const Allocations& allocations, const Categories& categories,
                                std::optional<uint32_t> entry);

}  // namespace ashlar
