// SPDX-License-Identifier: Apache-2.0
//
// Applies edits as typed to runs of one recording. Not thread safe.
#pragma once

#include <string>

#include "analysis/recording.h"
#include "analysis/whatif/checkpoints.h"
#include "analysis/whatif/edit.h"
#include "analysis/whatif/edited_run.h"
#include "analysis/whatif/name_resolver.h"
#include "analysis/whatif/stack_paths.h"
#include "ashlar/status.h"

namespace ashlar {

struct EditOutcome {
  Edit edit{};
  EditEffect effect{};
  std::string note{};  // the assumption behind the estimate, for this kind of edit; may be empty
};

class RunEditor {
 public:
  // REQUIRES: the arguments outlive this object.
  RunEditor(const DeviceRecording& recording, const NameSources& sources)
      : paths_(recording), names_(recording, paths_, sources) {}
  RunEditor(const RunEditor&) = delete;
  RunEditor& operator=(const RunEditor&) = delete;

  const StackPaths& paths() const { return paths_; }
  const NameResolver& names() const { return names_; }

  // kInvalidArgument: the edit matches nothing, is ambiguous, has no effect, or needs information
  // that the recording lacks. The message begins with the option.
  // REQUIRES: the run is one of this recording.
  Result<EditOutcome> apply(EditedRun& run, const Edit& edit) const;

 private:
  Result<EditEffect> change(EditedRun& run, const Edit& edit) const;
  Result<EditEffect> change_saved(EditedRun& run, const Edit& edit) const;
  Result<EditEffect> change_selected(EditedRun& run, const Edit& edit) const;

  StackPaths paths_;
  NameResolver names_;
};

}  // namespace ashlar
