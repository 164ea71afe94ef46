// SPDX-License-Identifier: Apache-2.0
//
// Runs the steps of the analysis in order.
#include "analysis/training/training_analysis.h"

#include <utility>

namespace ashlar {

const TrainingAnalysis& training_of(const DeviceRecording& recording) {
  return recording.cached<TrainingAnalysis>([&recording] {
    const Snapshot& snapshot = recording.snapshot();
    const DeviceIndex device = recording.device();
    const Allocations& allocations = recording.allocations();
    StackTraitsTable traits(snapshot, allocations.free_stacks);
    Iterations iterations = find_iterations(snapshot, device, allocations, traits);
    Categories categories = find_categories(snapshot, device, allocations, traits, iterations);
    if (!recording.has_history()) {
      for (CategoryRule& rule : categories.rules) {
        if (category_of(rule) == Category::kUnknown) rule = CategoryRule::kWithoutHistory;
      }
      // Reports describe the final state, not the one before the few frees that such a file may
      // have.
      categories.peak_bytes =
          bytes_by_category(allocations, categories, recording.timeline().reserved_peak.entry);
      iterations.problem = "the recording has no history";
    }
    std::vector<IterationPeaks> peaks =
        peaks_of(iterations, recording.timeline(), recording.trace());
    return TrainingAnalysis{std::move(traits), std::move(iterations), std::move(categories),
                            std::move(peaks)};
  });
}

}  // namespace ashlar
