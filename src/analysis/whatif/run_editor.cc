// SPDX-License-Identifier: Apache-2.0
//
// Selects the function for each kind of edit, and words its errors.
#include "analysis/whatif/run_editor.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/whatif/invocations.h"
#include "analysis/whatif/lifetimes.h"
#include "analysis/whatif/scaling.h"
#include "base/text.h"

namespace ashlar {
namespace {

std::string why_without_effect(const Edit& edit, const EditEffect& effect) {
  switch (edit.kind) {
    case EditKind::kRecompute:
    case EditKind::kOffload:
      return text("\"", edit.selector.text, "\": no backward pass frees what its ",
                  effect.found_invocations,
                  " invocations allocate, so there is nothing to recompute or move");
    case EditKind::kFree:
      return text("\"", edit.selector.text, "\" is always freed before ", edit.at->text);
    case EditKind::kKeepGradients:
      return "no gradient is freed; \"ashlar report\" says whether the recording has gradients";
    case EditKind::kDrop:
      return text("\"", edit.selector.text, "\": an earlier edit dropped all its allocations");
    default: return "changes nothing";
  }
}

// Returns whether a forward pass repeated for checkpointing calls the function.
bool is_recomputed(const DeviceRecording& recording, const StackPaths& paths,
                   const FrameSet& function) {
  const StackTraitsTable& traits = training_of(recording).traits;
  const auto count = static_cast<uint32_t>(recording.snapshot().tables.stacks.size());
  for (uint32_t i = 0; i < count; ++i) {
    if (!traits.of(StackId(i)).in_recomputation) continue;
    const std::vector<uint32_t>& path = paths.of(StackId(i));
    if (std::any_of(path.begin(), path.end(), [&](uint32_t frame) { return function[frame]; })) {
      return true;
    }
  }
  return false;
}

std::string note_for(EditKind kind) {
  switch (kind) {
    case EditKind::kRecompute:
      return "frees at the end of the function; Python may free some of it earlier";
    case EditKind::kOffload:
      return "frees at the end of the function; save_on_cpu() frees some of it earlier. Copies of "
             "saved parameters, which exist while a node runs, are not included";
    case EditKind::kFree: return "assumes that the program does not use the memory afterwards";
    case EditKind::kScale:
    case EditKind::kBatch:
      return "an estimate: at other shapes, libraries may choose kernels with other workspaces";
    default: return "";
  }
}

}  // namespace

Result<EditOutcome> RunEditor::apply(EditedRun& run, const Edit& edit) const {
  Result<EditEffect> effect = change(run, edit);
  const auto with_option = [&edit](const std::string& message) {
    const bool has_option = message.starts_with("--");
    return Status::invalid_argument(has_option ? message
                                               : text(option_of(edit.kind), ": ", message));
  };
  if (!effect.ok()) return with_option(effect.status().message());
  if (effect->allocation_count == 0) return with_option(why_without_effect(edit, *effect));
  return EditOutcome{.edit = edit, .effect = *effect, .note = note_for(edit.kind)};
}

Result<EditEffect> RunEditor::change(EditedRun& run, const Edit& edit) const {
  switch (edit.kind) {
    case EditKind::kRecompute:
    case EditKind::kOffload: return change_saved(run, edit);
    case EditKind::kBatch: {
      const Result<Selection> selected = find_batch_dependent(run.recording());
      if (!selected.ok()) return selected.status();
      return scale(run, *selected, edit.factor);
    }
    case EditKind::kKeepGradients: return keep_gradients(run, paths_);
    case EditKind::kSetToNone: return set_gradients_to_none(run, paths_);
    default: return change_selected(run, edit);
  }
}

Result<EditEffect> RunEditor::change_saved(EditedRun& run, const Edit& edit) const {
  const Result<FrameSet> function = names_.frames_of(edit.selector.terms.front());
  if (!function.ok()) return function.status();
  if (is_recomputed(run.recording(), paths_, *function)) {
    return Status::invalid_argument(
        text("\"", edit.selector.text,
             "\": the recorded program recomputes it already, with torch.utils.checkpoint; a "
             "recording does not tell what a checkpoint inside another one saves"));
  }
  const std::vector<Invocation> invocations = find_invocations(run, paths_, *function);
  return edit.kind == EditKind::kRecompute ? recompute(run, paths_, invocations)
                                           : offload(run, paths_, invocations);
}

Result<EditEffect> RunEditor::change_selected(EditedRun& run, const Edit& edit) const {
  const Result<Selection> selected = names_.selection_of(edit.selector);
  if (!selected.ok()) return selected.status();
  if (edit.kind == EditKind::kDrop) return drop(run, *selected);
  if (edit.kind == EditKind::kScale) return scale(run, *selected, edit.factor);
  if (!edit.at) return Status::invalid_argument("missing --at WHEN");
  const Result<Positions> moments = find_moments(run, paths_, names_, *edit.at);
  if (!moments.ok()) return moments.status();
  return free_earlier(run, *selected, *moments);
}

}  // namespace ashlar
