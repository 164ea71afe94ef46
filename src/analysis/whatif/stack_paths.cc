// SPDX-License-Identifier: Apache-2.0
//
// Computes the path of each stack once, because edits look up the paths of all operations.
#include "analysis/whatif/stack_paths.h"

#include <algorithm>

namespace ashlar {

StackPaths::StackPaths(const DeviceRecording& recording) : training_(training_of(recording)) {
  const SnapshotTables& tables = recording.snapshot().tables;
  const size_t count = std::max<size_t>(tables.stacks.size(), 1);
  for (uint32_t i = 0; i < count; ++i) {
    paths_.push_back(training_.traits.call_path(StackId(i)));
  }
  is_backward_.resize(recording.trace().size());
  for (const PhaseSpan& span : training_.iterations.phases) {
    if (span.phase != Phase::kBackward) continue;
    for (uint32_t i = span.entries.first; i < span.entries.end; ++i) is_backward_[i] = true;
  }
}

CallSite StackPaths::site_of(const Operation& operation) const {
  const StackTraits& traits = training_.traits.of(operation.stack);
  return operation.action == TraceAction::kAlloc ? traits.alloc_site : traits.free_site;
}

bool StackPaths::is_in_backward_pass(uint32_t entry) const {
  return entry < is_backward_.size() && is_backward_[entry];
}

bool StackPaths::is_of_program(const Operation& operation) const {
  const bool is_use =
      operation.action == TraceAction::kAlloc || operation.action == TraceAction::kFreeRequested;
  if (!is_use || operation.is_inserted || !has_python(operation.stack)) return false;
  const CallSite site = site_of(operation);
  return site != CallSite::kAutograd && site != CallSite::kUnknown;
}

bool StackPaths::is_of_backward(const Operation& operation) const {
  if (operation.is_inserted) return false;
  switch (site_of(operation)) {
    case CallSite::kAutograd: return !has_python(operation.stack);
    case CallSite::kBackwardCall: return true;
    case CallSite::kUnknown: return is_in_backward_pass(operation.entry);
    default: return false;
  }
}

}  // namespace ashlar
