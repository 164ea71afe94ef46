// SPDX-License-Identifier: Apache-2.0
//
// Compares the sizes that each stack allocates in different iterations.
#include "analysis/whatif/scaling.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "analysis/training/training_analysis.h"
#include "base/text.h"

namespace ashlar {
namespace {

constexpr size_t kMinComparedIterations = 3;

// The place of an allocation in an iteration, and its size.
using PlacedSize = std::tuple<Phase, StackId, size_t>;

PlacedSize placed_size_of(const TrainingAnalysis& training, const Allocation& allocation) {
  const uint32_t phase = training.iterations.phase_index_at(allocation.alloc_entry);
  return {training.iterations.phases[phase].phase, allocation.stack, allocation.bytes};
}

// Whether sizes follow from the model or, for workspaces, are chosen by libraries.
bool has_fixed_size(Category category) {
  switch (category) {
    case Category::kParameters:
    case Category::kGradients:
    case Category::kOptimizerState:
    case Category::kOptimizerTemporaries:
    case Category::kWorkspaces: return true;
    default: return false;
  }
}

}  // namespace

Result<EditEffect> scale(EditedRun& run, const Selection& selected, double factor) {
  constexpr double kMaxTotalBytes = 0x1p63;
  const auto scaled = [factor](size_t bytes) {
    return std::max(std::round(static_cast<double>(bytes) * factor), 1.0);
  };
  const auto is_scaled = [&](uint32_t id) {
    const EditedAllocation& each = run.allocations()[id];
    return selected.allocations[each.recorded] && each.bytes > 0 && !run.is_dropped(id);
  };
  const auto is_scaled_failure = [&](uint32_t operation) {
    return selected.contains_failure(run.operations()[operation]);
  };
  // Bounds every sum of sizes, so that none exceeds the range of size_t.
  double total_bytes = 0;
  for (uint32_t i = 0; i < run.allocations().size(); ++i) {
    const size_t bytes = run.allocations()[i].bytes;
    total_bytes += is_scaled(i) ? scaled(bytes) : static_cast<double>(bytes);
  }
  for (uint32_t i = 0; i < run.size(); ++i) {
    if (is_scaled_failure(i)) total_bytes += scaled(run.operations()[i].failed_bytes);
  }
  if (!(total_bytes < kMaxTotalBytes)) {
    return Status::invalid_argument(
        text("the allocations would have more than 2^63 bytes together (expected a factor below ",
             factor, ")"));
  }
  EditEffect effect;
  RunChanges changes(run);
  for (uint32_t i = 0; i < run.allocations().size(); ++i) {
    if (!is_scaled(i)) continue;
    changes.set_bytes(i, static_cast<size_t>(scaled(run.allocations()[i].bytes)));
    ++effect.allocation_count;
  }
  for (uint32_t i = 0; i < run.size(); ++i) {
    if (!is_scaled_failure(i)) continue;
    changes.set_failed_bytes(i, static_cast<size_t>(scaled(run.operations()[i].failed_bytes)));
    ++effect.allocation_count;
  }
  changes.apply();
  return effect;
}

namespace {

// The complete iterations of a recording, and the sizes that each place allocates in them.
class IterationSizes {
 public:
  explicit IterationSizes(const DeviceRecording& recording)
      : training_(training_of(recording)), complete_count_(training_.iterations.complete_count()) {
    std::map<PlacedSize, uint32_t> last_iteration;
    for (const Allocation& each : recording.allocations().all) {
      const uint32_t iteration = iteration_of(each);
      if (iteration == Iterations::kNoIteration ||
          !training_.iterations.all[iteration].is_complete) {
        continue;
      }
      const PlacedSize place = placed_size_of(training_, each);
      const auto [last, is_new] = last_iteration.try_emplace(place, iteration);
      if (!is_new && last->second == iteration) continue;
      last->second = iteration;
      ++counts_[place];
    }
  }

  size_t complete_count() const { return complete_count_; }

  // Returns whether the allocation belongs to an iteration, and not every complete iteration has
  // its size at its place.
  bool varies(const Allocation& allocation) const {
    if (!is_in_iteration(allocation)) return false;
    const auto found = counts_.find(placed_size_of(training_, allocation));
    return found == counts_.end() || found->second < complete_count_;
  }
  bool is_in_iteration(const Allocation& allocation) const {
    return iteration_of(allocation) != Iterations::kNoIteration;
  }

 private:
  uint32_t iteration_of(const Allocation& allocation) const {
    if (allocation.predates_trace() || allocation.bytes == 0) return Iterations::kNoIteration;
    return training_.iterations.at(allocation.alloc_entry);
  }

  const TrainingAnalysis& training_;
  const size_t complete_count_;
  std::map<PlacedSize, size_t> counts_;  // number of complete iterations
};

bool is_pass(Phase phase) { return phase == Phase::kForward || phase == Phase::kEvaluation; }

// Returns the failed requests whose stack has an allocation that depends on the batch size, and
// those in a forward pass, also of an evaluation, whose stack has no allocation.
std::vector<uint32_t> batch_dependent_failures(const DeviceRecording& recording,
                                               const std::vector<bool>& depends) {
  const std::vector<Allocation>& all = recording.allocations().all;
  std::map<StackId, bool> stacks;
  for (uint32_t i = 0; i < all.size() && recording.has_oom(); ++i) {
    bool& known = stacks[all[i].stack];
    known = known || depends[i];
  }
  const Iterations& iterations = training_of(recording).iterations;
  std::vector<uint32_t> failures;
  for (uint32_t i = 0; i < recording.trace().size(); ++i) {
    if (recording.trace()[i].action != TraceAction::kOom) continue;
    const auto found = stacks.find(recording.trace()[i].stack);
    const bool is_dependent = found != stacks.end()
                                  ? found->second
                                  : is_pass(iterations.phases[iterations.phase_index_at(i)].phase);
    if (is_dependent) failures.push_back(i);
  }
  return failures;
}

}  // namespace

Result<Selection> find_batch_dependent(const DeviceRecording& recording) {
  const Categories& categories = training_of(recording).categories;
  const std::vector<Allocation>& all = recording.allocations().all;
  const IterationSizes sizes(recording);
  if (sizes.complete_count() < kMinComparedIterations) {
    return Status::invalid_argument(text("--batch: the recording has ", sizes.complete_count(),
                                         " complete iterations (expected at least ",
                                         kMinComparedIterations,
                                         "); name what to scale: --scale class:activations=X"));
  }
  Selection selection;
  selection.allocations.resize(all.size());
  double data_bytes = 0;  // of activations and inputs
  double varying_bytes = 0;
  for (uint32_t i = 0; i < all.size(); ++i) {
    const Category category = categories.of(i);
    if (has_fixed_size(category)) continue;
    selection.allocations[i] = sizes.varies(all[i]);
    const bool is_data = category == Category::kActivations || category == Category::kInputs;
    if (!is_data || !sizes.is_in_iteration(all[i])) continue;
    data_bytes += static_cast<double>(all[i].bytes);
    if (selection.allocations[i]) varying_bytes += static_cast<double>(all[i].bytes);
  }
  constexpr const char* kAdvice =
      ", so the recording does not tell what depends on the batch; record batches of different "
      "sizes, or name what to scale: --scale class:activations=X";
  if (varying_bytes == 0) {
    return Status::invalid_argument(text("--batch: all iterations have the same sizes", kAdvice));
  }
  // If the batch size varies, nearly all of these bytes vary.
  if (varying_bytes < data_bytes / 2) {
    const auto percent = static_cast<int>(100 * varying_bytes / data_bytes);
    return Status::invalid_argument(
        text("--batch: only ", percent,
             " % of the bytes of activations and inputs differ between iterations", kAdvice));
  }
  selection.failures = batch_dependent_failures(recording, selection.allocations);
  return selection;
}

}  // namespace ashlar
